// A page that is served hears of changes and reads again; a page that is a file has no server.
const RETRY = 1000;
let live = null;

async function fetched(address) {
  const answer = await fetch(address, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return answer.text();
}

// Calls `update` with what each address holds when that changed. While a button or finger is down
// nothing is drawn: a link that is replaced between press and release loses its click.
function follow(addresses, update) {
  const box = document.getElementById("live"), tell = (state, text) => { box.dataset.state = state; box.textContent = text; };
  box.hidden = false;
  tell("off", "connecting");
  let busy = false, again = false, pressed = false, drawn = [];
  const read = async () => {
    if (busy || pressed) { again = true; return; }
    busy = true;
    try {
      const texts = await Promise.all(addresses.map(fetched));
      if (pressed) again = true;
      else if (texts.some((text, at) => text !== drawn[at])) {
        update(...texts.map((text) => JSON.parse(text)));
        drawn = texts;
      }
      tell("on", "live");
    } catch (error) { tell("lost", `not read: ${error.message}`); }
    busy = false;
    goOn();
  };
  const goOn = () => { if (again && !pressed) { again = false; read(); } };
  const release = () => setTimeout(() => { pressed = false; goOn(); });  // after the click
  window.addEventListener("pointerdown", () => { pressed = true; });
  for (const end of ["pointerup", "pointercancel", "blur"]) window.addEventListener(end, release);
  const listen = () => {
    live = new EventSource("/events");
    live.addEventListener("changed", read);
    live.addEventListener("error", () => {
      tell("lost", "connection lost, trying again");
      // A browser that was turned away gives up; the server may be back in a moment.
      if (live.readyState === EventSource.CLOSED) setTimeout(listen, RETRY);
    });
  };
  listen();
}
