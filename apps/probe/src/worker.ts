// The thread that runs the probes. An attack that keeps it busy for ever does not stop the thread that watches it.
import { parentPort, workerData } from 'node:worker_threads'
import { KINDS } from './kinds.ts'
import { runKind, type KindReport } from './probe.ts'

/** A message of this thread. */
export type Progress =
  /** A probe begins. */
  { readonly kind: string; readonly probe: string } | { readonly report: KindReport }

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, and no window
const tell = (message: Progress): void => parentPort?.postMessage(message)
const names: readonly string[] = workerData

for (const kind of KINDS.filter(({ name }) => names.includes(name))) {
  const report = await runKind(kind, (probe) => tell({ kind: kind.name, probe }))
  tell({ report })
}
// A connection that a client keeps open must not keep the command open: the last check of each kind saw the ends.
process.exit()
