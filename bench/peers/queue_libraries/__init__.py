"""One module for each queue: `setup()`, `client()`, `worker(mode)` and `remaining()`.

The modes of a worker: "one" process, the "two" that suit two cores, "sleep" for 200 jobs at once, and "default".
`remaining()` counts the jobs that the store still holds unfinished, to tell lost jobs from stuck ones.
"""
