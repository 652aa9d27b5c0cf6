// A browser starts no worker from a file, and the search of the site needs one. So where pages are files, a hidden frame runs the script of a
// worker. Material for MkDocs looks for a polyfill of this name.
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.frame.title = "search"
      this.started = new Promise(resolve => {
        addEventListener("message", event => {
          if (event.source !== this.frame.contentWindow) return
          if (event.data === "started") return resolve()
          const message = new MessageEvent("message", {data: event.data})
          this.dispatchEvent(message)
          if (this.onmessage) this.onmessage(message)
        })
      })
      const script = new URL(url, document.baseURI)
      // What a worker has and a frame has not: its answers go to the page, and further scripts are loaded one after the other.
      this.frame.srcdoc = `<script>
        postMessage = message => parent.postMessage(message, "*")
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(resolve => {
          const added = document.createElement("script")
          added.src = new URL(url, ${JSON.stringify(script.href)})
          added.onload = resolve
          document.body.append(added)
        })), Promise.resolve())
      <` + `/script><body><script src="${script.href}"><` + `/script><script>postMessage("started")<` + `/script>`
      document.documentElement.append(this.frame)
    }

    postMessage(data) {
      this.started.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
