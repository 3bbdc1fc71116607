// Uploads of this browser: they go on while the reader looks at other pages.
import { upload } from "./api";

export interface Sending {
  number: number;
  name: string;
  part: number; // 0 to 1
  state: "waiting" | "sending" | "arrived" | "already here" | "stored again" | "failed";
  capture?: string;
  error?: string;
}

const AT_ONCE = 2;

export const uploads = $state<{ list: Sending[] }>({ list: [] });
const waiting: [number, File][] = [];
let running = 0;
let count = 0;

function change(number: number, to: Partial<Sending>) {
  uploads.list = uploads.list.map((u) => (u.number === number ? { ...u, ...to } : u));
}

async function next() {
  const found = running < AT_ONCE ? waiting.shift() : undefined;
  if (!found) return;
  const [number, file] = found;
  running++;
  change(number, { state: "sending" });
  try {
    const capture = await upload(file, (part) => change(number, { part }));
    change(number, { part: 1, state: capture.restored ? "stored again" : capture.already_here ? "already here" : "arrived", capture: capture.id });
  } catch (e) {
    change(number, { state: "failed", error: (e as Error).message });
  }
  running--;
  next();
}

function add(file: File, name: string) {
  const number = count++;
  waiting.push([number, file]);
  uploads.list = [...uploads.list, { number, name, part: 0, state: "waiting" }];
  next();
}

export function send(files: Iterable<File>) {
  for (const file of files) add(file, file.webkitRelativePath || file.name);
}

export function clearEnded() {
  uploads.list = uploads.list.filter((u) => u.state === "waiting" || u.state === "sending");
}

// Sends what was dropped, the files within folders included. What cannot be read has a row of its own, with the reason, and keeps back
// nothing else.
export async function sendDropped(items: DataTransferItemList) {
  // The list is empty once this task has ended: its entries are read first.
  const entries = [...items].flatMap((i) => i.webkitGetAsEntry() ?? []);
  await Promise.all(entries.map(sendEntry));
}

async function sendEntry(entry: FileSystemEntry): Promise<void> {
  try {
    if (entry.isFile) {
      const file = await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed));
      add(file, entry.fullPath.replace(/^\//, ""));
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      // A reader answers at most 100 entries at once.
      const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
      if (!some.length) return;
      await Promise.all(some.map(sendEntry));
    }
  } catch (e) {
    const error = `it cannot be read: ${(e as Error).message}`;
    uploads.list = [...uploads.list, { number: count++, name: entry.fullPath.replace(/^\//, ""), part: 0, state: "failed", error }];
  }
}
