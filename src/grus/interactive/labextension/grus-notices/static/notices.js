// Shows what Grus has to say to this session (that it idles, that its time is nearly up) as a notification.
// JupyterLab loads it as one of its prebuilt extensions: a container with `init` and `get`.
"use strict";

const EVERY = 15000; // milliseconds between two questions

const plugin = {
  id: "grus-notices:plugin",
  autoStart: true,
  activate(app) {
    let told = 0;
    const ask = async () => {
      try {
        const base = app.serviceManager.serverSettings.baseUrl;
        const answer = await fetch(new URL("grus/notice", base), {credentials: "same-origin"});
        const notice = answer.ok ? await answer.json() : {};
        if (notice.text && notice.seq > told) {
          told = notice.seq;
          app.commands.execute("apputils:notify", {
            message: notice.text,
            type: notice.kind === "busy" ? "info" : "warning",
            options: {autoClose: false},
          });
        }
      } catch {
        // The server is away; JupyterLab says so itself.
      }
    };
    app.restored.then(() => {
      ask();
      setInterval(ask, EVERY);
    });
  },
};

window._JUPYTERLAB = window._JUPYTERLAB || {};
window._JUPYTERLAB["grus-notices"] = {
  init() {},
  async get() {
    return () => ({__esModule: true, default: plugin});
  },
};
