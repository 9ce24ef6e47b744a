"use strict";
// The page's one script: takes the one-time code out of the address, keeps the session's token, and keeps the view true.
// Views are HTML that the daemon made; what is the same in the new one stays as it is, so focus and reading go on.

(() => {
  const TOKEN = "wake-bridge-token";
  const QUIET_FOR = 40_000; // ms: the daemon says something every 15 s
  const SOON = 200; // ms in which events are gathered before the view is made anew
  const AGAIN = 20_000; // ms after which ages are told anew
  const html = document.documentElement;
  const main = document.getElementById("view");
  const link = document.getElementById("link");
  const linkText = document.getElementById("link-text");
  const said = document.getElementById("said");

  let token = sessionStorage.getItem(TOKEN);
  let cursor = null; // the entry of the feed that came last
  let shownPath = null;
  let needing = null;
  let timer = null;
  let wanted = 0;

  // -- asking -------------------------------------------------------------------------------------------------

  class SignedOut extends Error {}

  async function ask(path, options = {}) {
    const answer = await fetch(path, {
      ...options,
      headers: { ...options.headers, Authorization: `Bearer ${token}` },
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
    });
    if (answer.status === 401) {
      sessionStorage.removeItem(TOKEN);
      token = null;
      throw new SignedOut();
    }
    return answer;
  }

  function post(path, body) {
    return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  }

  async function exchange(code) {
    const answer = await fetch("/api/session", { ...post("", { code }), credentials: "omit", cache: "no-store" });
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.error);
    token = told.token;
    sessionStorage.setItem(TOKEN, token);
  }

  // -- showing ------------------------------------------------------------------------------------------------

  function state(name, text) {
    link.dataset.state = name;
    if (linkText.textContent !== text) linkText.textContent = text;
  }

  let saidTimer = null;
  function say(text) {
    said.textContent = text;
    clearTimeout(saidTimer);
    saidTimer = setTimeout(() => (said.textContent = ""), 6000);
  }

  function plainly(title, text) {
    const heading = document.createElement("h1");
    heading.textContent = title;
    const words = document.createElement("p");
    words.className = "empty";
    // a command stands between backticks
    text.split("`").forEach((part, at) => {
      const node = document.createElement(at % 2 ? "code" : "span");
      node.textContent = part;
      words.append(node);
    });
    main.replaceChildren(heading, words);
    shownPath = null;
  }

  function signedOut(why) {
    state("out", "not signed in");
    plainly("This page needs a link", `${why} Run \`wake-bridge open\` in a terminal on this host: it prints a link that opens the page once.`);
  }

  function pathOf(hash) {
    const [, kind, name] = hash.replace(/^#\/?/, "/").split("/");
    if (kind === "agent" && name) return `/page/agent/${name}`;
    if (kind === "wake" && name) return `/page/wake/${name}`;
    return "/page/fleet";
  }

  // Make `old` what `fresh` is, and touch only what differs: nodes with the same id are the same thing.
  function become(old, fresh) {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || old.id !== fresh.id) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    const kept = old.nodeName === "DETAILS" ? ["open"] : [];
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !kept.includes(name)) old.removeAttribute(name);
    for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    if (old.nodeName === "INPUT" || (old.nodeName === "BUTTON" && old.dataset.looked && old.closest("details[open]"))) {
      if (old.dataset.looked) old.disabled = !old.closest("details").querySelector("[data-looks]").checked;
      return;
    }
    const byId = new Map([...old.children].filter((one) => one.id).map((one) => [one.id, one]));
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const known = child.id ? byId.get(child.id) : at && !at.id && at.nodeName === child.nodeName ? at : null;
      if (known) {
        if (known === at) at = at.nextSibling;
        else old.insertBefore(known, at);
        become(known, child);
      } else {
        if (child.nodeType === Node.ELEMENT_NODE && child.matches(".entry")) child.dataset.fresh = "";
        old.insertBefore(child, at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  async function show() {
    const path = pathOf(location.hash);
    const mine = ++wanted;
    const answer = await ask(path);
    if (mine !== wanted) return; // another view was asked for meanwhile
    if (!answer.ok) {
      const told = await answer.json();
      if (path !== shownPath || answer.status < 500) plainly("Nothing to show", told.error);
      return;
    }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector(".view");
    if (mine !== wanted) return;
    document.title = fresh.dataset.title;
    if (cursor === null) cursor = Number(fresh.dataset.cursor);
    if (path === shownPath) {
      const focused = document.activeElement && document.activeElement.id;
      become(main.firstElementChild, fresh);
      if (focused && document.activeElement === document.body) document.getElementById(focused)?.focus();
    } else {
      const isFirst = shownPath === null;
      main.replaceChildren(fresh);
      shownPath = path;
      window.scrollTo(0, 0);
      if (!isFirst) main.focus({ preventScroll: true });
    }
    filter();
    tellNeeds(fresh.dataset.needs);
  }

  // A screen reader hears who has come to need a person, and nothing of what only goes on.
  function tellNeeds(names) {
    if (names === undefined) return;
    const now = names.split(" ").filter(Boolean);
    const fresh = needing === null ? [] : now.filter((one) => !needing.includes(one));
    needing = now;
    if (fresh.length) say(`${fresh.join(", ")} ${fresh.length === 1 ? "needs" : "need"} you`);
  }

  function soon() {
    if (timer !== null) return;
    timer = setTimeout(async () => {
      timer = null;
      try {
        await show();
      } catch (trouble) {
        if (trouble instanceof SignedOut) signedOut("The session has ended.");
        // else the stream says so, and asks again
      }
    }, SOON);
  }

  // -- the stream ---------------------------------------------------------------------------------------------

  function take(event) {
    if (event.id) {
      cursor = Number(event.id);
      html.dataset.cursor = event.id;
      html.dataset.events = String(Number(html.dataset.events || 0) + 1);
    }
    if (event.name === "reset" || event.name === "dropped") html.dataset[event.name] = "1";
    if (event.name !== "") soon();
  }

  async function listen() {
    const abort = new AbortController();
    let watchdog = setTimeout(() => abort.abort(), QUIET_FOR);
    try {
      const headers = cursor === null ? {} : { "Last-Event-ID": String(cursor) };
      const answer = await ask("/api/events", { headers, signal: abort.signal });
      if (!answer.ok) throw new Error(`${answer.status}`);
      state("live", "live");
      soon();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(), QUIET_FOR);
        const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) {
          const event = { name: "", id: "" };
          for (const line of block.split("\n")) {
            if (line.startsWith("event: ")) event.name = line.slice(7);
            if (line.startsWith("id: ")) event.id = line.slice(4);
          }
          take(event);
        }
      }
    } finally {
      clearTimeout(watchdog);
      abort.abort();
    }
  }

  async function goOn() {
    let pause = 500;
    for (;;) {
      const began = Date.now();
      try {
        await listen();
      } catch (trouble) {
        if (trouble instanceof SignedOut) {
          signedOut("The session has ended.");
          return;
        }
      }
      if (Date.now() - began > 5000) pause = 500;
      state("waiting", "the daemon does not answer; trying again");
      await new Promise((wake) => setTimeout(wake, pause));
      pause = Math.min(pause * 1.6, 5000);
    }
  }

  // -- acting -------------------------------------------------------------------------------------------------

  async function act(button) {
    const { act: name, identity, delivery, seconds, looked } = button.dataset;
    const body = { act: name };
    if (identity) body.identity = identity;
    if (delivery) body.delivery = delivery;
    if (seconds) body.seconds = Number(seconds);
    if (looked) body.looked = true;
    button.setAttribute("aria-busy", "true");
    try {
      const answer = await ask("/api/act", post("", body));
      const told = await answer.json();
      say(answer.ok ? told.said : `Not done: ${told.error}`);
    } catch (trouble) {
      if (trouble instanceof SignedOut) return signedOut("The session has ended.");
      say("Not done: the daemon does not answer");
    } finally {
      button.removeAttribute("aria-busy");
    }
    soon();
  }

  function filter() {
    const field = document.getElementById("filter");
    if (!field) return;
    const words = field.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of document.querySelectorAll(".row")) {
      const text = row.dataset.words.toLowerCase();
      row.hidden = !words.every((one) => text.includes(one));
      if (!row.hidden) shown += 1;
    }
    const none = document.getElementById("no-match");
    if (none) none.hidden = shown > 0;
  }

  function step(by) {
    const agents = [...document.querySelectorAll("#needs .agent, #agents .row:not([hidden]) .agent")];
    if (!agents.length) return;
    const at = agents.indexOf(document.activeElement);
    const next = agents[at < 0 ? (by > 0 ? 0 : agents.length - 1) : (at + by + agents.length) % agents.length];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-act]");
    if (button && !button.disabled && button.getAttribute("aria-busy") !== "true") act(button);
  });
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-looks]")) return;
    event.target.closest(".retry-box").querySelector("button").disabled = !event.target.checked;
  });
  document.addEventListener("input", (event) => event.target.id === "filter" && filter());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = event.target.matches("input[type=search]");
    if (event.key === "Escape") {
      if (isTyping && event.target.value) {
        event.target.value = "";
        filter();
      } else if (isTyping) event.target.blur();
      else if (shownPath !== "/page/fleet") location.hash = "#/";
    } else if (isTyping) return;
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/") {
      event.preventDefault();
      document.getElementById("filter")?.focus();
    }
  });
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  window.addEventListener("hashchange", async () => {
    if (location.hash.startsWith("#k=")) return begin();
    soon();
  });
  // whoever leaves the page has looked: what was new is marked until then
  document.addEventListener("visibilitychange", () => {
    if (!token) return;
    if (document.visibilityState === "visible") soon();
    else ask("/api/act", { ...post("", { act: "look" }), keepalive: true }).catch(() => {});
  });
  setInterval(() => token && document.visibilityState === "visible" && soon(), AGAIN);

  // -- the beginning ------------------------------------------------------------------------------------------

  let isRunning = false;
  async function begin() {
    const code = location.hash.startsWith("#k=") ? location.hash.slice(3) : "";
    // what was in the address must not stay in the history
    if (code) history.replaceState(null, "", "/");
    try {
      if (code) await exchange(code);
      if (!token) return signedOut("");
      await show();
    } catch (trouble) {
      if (trouble instanceof SignedOut) return signedOut("The session has ended.");
      if (code && !token) return signedOut(`${trouble.message}.`);
    }
    if (!isRunning) {
      isRunning = true;
      goOn().finally(() => (isRunning = false));
    }
  }
  begin();
})();
