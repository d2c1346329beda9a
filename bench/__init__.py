"""What Tidegate costs, beside what nothing can be cheaper than: `python -m bench`, in well under a minute."""
