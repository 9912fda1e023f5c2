import { Deadline } from '../deadline.ts'
import type { SessionTransport } from './session-transport.ts'
import { settledOrAborted } from '../settled-or-aborted.ts'

/** Leaves time within a disposal for closing what a silent server keeps open. */
const TERMINATE_MS = 900

/** Ends the session on the server, and waits no longer than 0.9 s for it. Never rejects. */
export async function terminateSession(
  transport: SessionTransport,
  log: (level: 'warning', what: string, cause: unknown) => void,
): Promise<void> {
  using deadline = new Deadline(TERMINATE_MS)
  try {
    await settledOrAborted(transport.terminateSession(), deadline.signal)
  } catch (error) {
    log('warning', 'the session could not be ended on the server', error)
  }
}
