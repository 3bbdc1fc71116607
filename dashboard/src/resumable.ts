// The upload of a large capture: it goes on when the connection broke, and when the same file is dropped again after the
// page was left. api.ts loads this file with the first such capture.
import { DetailedError, Upload } from "tus-js-client";
import { api, refused, type CaptureReceived } from "./api";

// Before each attempt without progress, milliseconds: six minutes in all, because the server answers the last part only when
// it has stored the capture, and proxies may not wait for that.
const PAUSES_MS = [0, 1000, 3000, 5000, 10_000, ...Array<number>(17).fill(20_000)];
const ENDPOINT = "/v1/uploads";
const SAMPLE_BYTES = 1 << 16;

export function upload(file: File, progress: (part: number) => void): Promise<CaptureReceived> {
  return new Promise((resolve, reject) => {
    const sending: Upload = new Upload(file, {
      endpoint: ENDPOINT,
      metadata: { filename: file.name },
      retryDelays: PAUSES_MS,
      removeFingerprintOnSuccess: true,
      fingerprint: recognised,
      onShouldRetry: (e) => mayPass(e as DetailedError),
      onProgress: (sent, size) => progress(sent / size),
      onError: (e) => reject(told(e)),
      onSuccess: () => became(sending).then(resolve, reject),
    });
    sending.findPreviousUploads().then((found) => {
      if (found[0]) sending.resumeFromPreviousUpload(found[0]);
      sending.start();
    }, reject);
  });
}

async function became(sent: Upload): Promise<CaptureReceived> {
  const { capture } = await api.upload((sent.url ?? "").split("/").pop() ?? "");
  if (!capture) throw new Error("the capture was deleted meanwhile: drop it again");
  return capture;
}

function mayPass(e: DetailedError): boolean {
  const status = e.originalResponse?.getStatus() ?? 0;
  // Of a part: it came too slowly, belongs elsewhere by now, stopped halfway, or another request is adding to the upload.
  if (e.originalRequest?.getMethod() !== "POST" && [408, 409, 422, 423].includes(status)) return true;
  return status === 0 || status === 429 || status >= 500;
}

function told(e: Error | DetailedError): Error {
  const answer = e instanceof DetailedError ? e.originalResponse : null;
  if (!answer) return new Error("the connection broke for too long; drop the file again, and the upload goes on");
  return refused(answer.getStatus(), "", answer.getBody());
}

// By what the same file is recognised: nothing else may be added to its upload, so its ends are looked at, too.
async function recognised(file: File): Promise<string> {
  const ends = new Blob([file.slice(0, SAMPLE_BYTES), file.slice(-SAMPLE_BYTES)]);
  let hash = 0x811c9dc5; // FNV-1a; crypto.subtle is missing without https
  for (const byte of new Uint8Array(await ends.arrayBuffer())) hash = Math.imul(hash ^ byte, 0x01000193);
  return ["rewindow", file.webkitRelativePath || file.name, file.size, file.lastModified, hash >>> 0].join(":");
}
