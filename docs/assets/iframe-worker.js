// Search on pages opened from disk. Browsers start no worker there, so its script runs
// in a hidden frame instead, and messages are handed over directly.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.documentElement.append(frame)
      const inside = frame.contentWindow
      inside.postMessage = data => {
        const message = new MessageEvent("message", { data })
        this.dispatchEvent(message)
        this.onmessage?.(message)
      }
      this.loaded = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script")
        script.src = url
        script.onload = () => resolve(inside)
        script.onerror = reject
        inside.document.documentElement.append(script)
      })
    }
    postMessage(data) {
      this.loaded.then(inside =>
        inside.dispatchEvent(new inside.MessageEvent("message", { data }))
      )
    }
  }
}
