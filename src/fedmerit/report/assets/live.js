// A page that is served hears of changes and reads again; a page that is a file has no server.
const RETRY = 1000;
let live = null;

async function fetched(address) {
  const answer = await fetch(address, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return answer.json();
}

// Calls `update` with what each address holds whenever the server says that something changed.
function follow(addresses, update) {
  const box = document.getElementById("live"), tell = (state, text) => { box.dataset.state = state; box.textContent = text; };
  box.hidden = false;
  tell("off", "connecting");
  let busy = false, again = false;
  const read = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      update(...(await Promise.all(addresses.map(fetched))));
      tell("on", "live");
    } catch (error) { tell("lost", `not read: ${error.message}`); }
    busy = false;
    if (again) { again = false; read(); }
  };
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
