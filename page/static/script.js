// Keeps the page as the node is. The server makes every part; this puts in what has changed, and says when the node cannot be
// reached. Places that stay the same are not touched, so that focus, scrolling and a reader's place stay too.
"use strict";
(() => {
  const silence = 5000; // milliseconds without an event after which nobody is there: the progress comes every second
  const rest = 200; // milliseconds between two pictures at least
  const link = document.getElementById("link");
  const news = document.getElementById("news");
  const parts = document.querySelectorAll("[data-live]");
  let taken = new Date(); // when the picture was made that is shown
  let busy = false, again = false, progress = "", over = "", heard = 0, source = null;

  const clock = (t) => t.toISOString().slice(11, 19) + " UTC";

  const say = (text, broken) => {
    if (link.textContent === text) return;
    link.textContent = text;
    link.classList.toggle("broken", broken);
    document.documentElement.classList.toggle("stale", broken);
  };

  const lost = () => say(`The node is not reachable, or tells too many already. This is the picture of ${clock(taken)}; trying again.`, true);

  // morph makes old what fresh is, and keeps each element that only changes within. What a person has opened stays open.
  const morph = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
      old.replaceWith(document.importNode(fresh, true));
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const was = [...old.childNodes], is = [...fresh.childNodes];
    for (let i = 0; i < Math.max(was.length, is.length); i++) {
      if (i >= was.length) old.append(document.importNode(is[i], true));
      else if (i >= is.length) was[i].remove();
      else morph(was[i], is[i]);
    }
  };

  const refresh = async () => {
    if (busy || document.hidden) {
      again = true;
      return;
    }
    busy = true;
    again = false;
    try {
      const answer = await fetch("page/live", { cache: "no-store" });
      if (answer.ok) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const part of parts) {
          const to = fresh.getElementById(part.id);
          if (to) morph(part, to);
        }
        taken = new Date();
        const state = document.querySelector("#state .badge");
        if (state) document.title = document.querySelector("h1").textContent + ": " + state.textContent.trim();
      } else {
        again = true;
      }
    } catch {
      lost();
    }
    setTimeout(() => {
      busy = false;
      if (again) refresh();
    }, rest);
  };

  const told = () => {
    heard = Date.now();
    say(over || "Live: this page changes as the node does.", false);
  };

  const connect = () => {
    source = new EventSource("events");
    heard = Date.now();
    source.addEventListener("progress", (e) => {
      over = "";
      told();
      if (e.data !== progress) refresh();
      progress = e.data;
    });
    source.addEventListener("transition", (e) => {
      told();
      refresh();
      const t = JSON.parse(e.data);
      if ((t.kind === "node" || t.kind === "thread") && t.new) news.textContent = `${t.path.split("/").pop()}: ${t.new} ${(t.flags || []).join(" ")}`;
    });
    source.addEventListener("end", (e) => {
      over = `The node has ended (${JSON.parse(e.data).state}), or its server is about to. Nothing changes here any more.`;
      told();
      refresh();
    });
    source.addEventListener("error", () => {
      if (!over) lost();
      else over = "";
      progress = ""; // what was missed meanwhile is fetched when it is there again
    });
  };

  setInterval(() => {
    if (source.readyState === EventSource.CLOSED || Date.now() - heard > silence) {
      if (!document.hidden) lost();
      source.close();
      connect();
    }
  }, 2000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && again) refresh();
  });
  link.textContent = "Connecting.";
  connect();
})();
