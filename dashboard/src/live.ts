// What has changed for the team, by one stream of events for all tabs of a browser, which opens only six connections to a server.
// One tab reads the stream and tells the others; a lock decides which. A page that is neither from https nor from this machine has
// no locks: there each tab reads a stream of its own. A tab that nobody has looked at for a while takes no part.
import { onDestroy } from "svelte";
import { api } from "./api";

export interface Change {
  kind: "capture" | "replay" | "segments" | "whatif" | "sweep" | "check";
  id: string;
  connection_id: string | null;
  state: "queued" | "running" | "done" | "failed" | "cancelled" | "deleted";
  stage?: string;
  progress?: number;
  error?: string | null;
}

export const isUnderWay = (state: string) => state === "queued" || state === "running";

// What a change says about an object that a page shows: all but whose it is.
export function shown({ kind: _kind, connection_id: _connection, ...rest }: Change) {
  return rest;
}

interface Listener {
  changed: (changes: Change[]) => void;
  again: () => void;
}
interface Message {
  id: string; // of the event
  changes: Change[] | null; // null: everything is to be read again
}

const NAME = "rewindow.events";
const HIDDEN_MS = 60_000; // then a hidden tab takes no part
const PAUSE_MS = 1_000; // before a stream is asked for again that was refused; it doubles
const PAUSE_MOST_MS = 30_000;

const listeners = new Set<Listener>();
const others = new BroadcastChannel(NAME);
let since = ""; // the last event that this tab has heard of
let isSignedIn = false;
let left: AbortController | undefined; // ends this tab's part
let hiding: ReturnType<typeof setTimeout> | undefined;

// changed: of these kinds. again: what was read before may be old. Returns what ends it.
export function live(kinds: Change["kind"][], changed: (changes: Change[]) => void, again: () => void): () => void {
  const listener = {
    changed: (all: Change[]) => {
      const own = all.filter((c) => kinds.includes(c.kind));
      if (own.length) changed(own);
    },
    again,
  };
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// Calls that come while `read` runs, or soon after it, are one more call of it. For a component, while it is initialised: once it
// has gone nothing is read.
export function gathered(read: () => Promise<unknown>, pause = 500): () => void {
  let isWanted = false;
  let isBusy = false;
  let isOver = false;
  onDestroy(() => (isOver = true));
  return async function wanted() {
    isWanted = true;
    if (isBusy) return;
    isBusy = true;
    while (isWanted && !isOver) {
      isWanted = false;
      await read();
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    isBusy = false;
  };
}

// For reads of one thing that may run at the same time, whose answers come in any order. Called when a read begins; what it returns
// says, when the answer is there, whether to take it: not if a read that began later was answered before.
export function inOrder(): () => () => boolean {
  let begun = 0;
  let taken = 0;
  return () => {
    const mine = ++begun;
    return () => {
      taken = Math.max(taken, mine);
      return taken === mine;
    };
  };
}

// from: where the team's events were when the page began to read.
export function begin(from: string) {
  isSignedIn = true;
  since = from;
  join();
}

export function end() {
  isSignedIn = false;
  leave();
}

function hear({ id, changes }: Message) {
  since = id;
  for (const listener of [...listeners]) {
    if (changes) listener.changed(changes);
    else listener.again();
  }
}

others.onmessage = (event) => {
  if (left) hear(event.data as Message);
};

function join() {
  if (left || !isSignedIn) return;
  const leaving = (left = new AbortController());
  const isOver = new Promise<void>((resolve) => leaving.signal.addEventListener("abort", () => resolve()));
  const read = () => {
    if (!leaving.signal.aborted) open(leaving.signal, 0);
    return isOver;
  };
  if (!navigator.locks) read();
  else
    navigator.locks.request(NAME, { signal: leaving.signal }, read).catch(() => {
      // Left before it was this tab's turn.
    });
}

function leave() {
  left?.abort();
  left = undefined;
}

function open(over: AbortSignal, refusals: number) {
  const source = new EventSource(`/v1/events?since=${encodeURIComponent(since)}`);
  const close = () => source.close();
  over.addEventListener("abort", close);
  const tell = (message: Message) => {
    hear(message);
    others.postMessage(message);
  };
  source.addEventListener("changes", (event) => tell({ id: event.lastEventId, changes: JSON.parse(event.data) as Change[] }));
  source.addEventListener("refresh", (event) => tell({ id: event.lastEventId, changes: null }));
  source.onopen = () => (refusals = 0);
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) return; // the browser asks again itself
    over.removeEventListener("abort", close);
    const pause = Math.min(PAUSE_MS * 2 ** refusals, PAUSE_MOST_MS);
    setTimeout(async () => {
      if (over.aborted) return;
      await api.team().catch(() => {}); // a session that has ended leads to the sign-in page
      if (!over.aborted) open(over, refusals + 1);
    }, pause);
  };
}

// A tab that comes back has missed what happened: it asks where the events are now, then reads everything again.
async function comeBack() {
  try {
    since = (await api.team()).events_since;
  } catch {
    // The stream says so, too, and tries again.
  }
  join();
  for (const listener of [...listeners]) listener.again();
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.visibilityState === "hidden") hiding = setTimeout(leave, HIDDEN_MS);
  else if (isSignedIn && !left) comeBack();
});
