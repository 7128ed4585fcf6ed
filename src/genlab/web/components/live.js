// Follows a run by its WebSocket: puts the cells of items in the place of those that the page drew.
// Triggers `end` when the run has ended, and `row`, where more cases wait than are shown, when all
// items of a shown case have ended.
const ENDED = new Set(["scored", "failed", "skipped"]);
const AGAIN = 1000; // milliseconds between two tries to connect

export default function ({ data, setTriggerValue }) {
  let socket = null;
  let left = false;
  let timer = null;

  const replace = (old, html) => {
    const template = document.createElement("template");
    template.innerHTML = html; // escaped by the server
    old.replaceWith(template.content.firstElementChild);
  };

  const show = (message) => {
    let ended = false; // a shown case has
    for (const [item, html] of Object.entries(message.cells)) {
      const cell = document.querySelector(`[data-item="${item}"]`);
      if (!cell) continue;
      replace(cell, html);
      const row = document.querySelectorAll(`[data-case="${cell.dataset.case}"]`);
      ended ||= [...row].every((one) => ENDED.has(one.dataset.status));
    }
    const bar = document.querySelector(".b-progress");
    if (bar) replace(bar, message.progress);
    if (message.end) {
      left = true;
      setTriggerValue("end", true);
    } else if (data.rotate && ended) setTriggerValue("row", Date.now());
  };

  const connect = () => {
    const address = location.origin.replace(/^http/, "ws") + data.path;
    socket = new WebSocket(address);
    socket.onmessage = (event) => show(JSON.parse(event.data));
    socket.onclose = () => {
      if (!left) timer = setTimeout(connect, AGAIN);
    };
  };
  connect();

  return () => {
    left = true;
    clearTimeout(timer);
    socket.close();
  };
}
