// A page that is opened from a folder may start no worker: its search then works in a frame of the page itself.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage?.({ data: structuredClone(data) }));
      const script = inside.document.createElement("script");
      this.begun = new Promise((done, failed) => {
        script.onload = done;
        script.onerror = failed;
      });
      this.begun.catch((error) => this.onerror?.(error));
      script.src = address;
      inside.document.body.append(script);
    }

    postMessage(data) {
      const copy = structuredClone(data); // as it is now
      this.begun.then(() => this.frame.contentWindow?.onmessage?.({ data: copy })).catch(() => {});
    }

    terminate() {
      this.frame.remove();
    }
  };
}
