import type { Clock } from '../clock.ts'
import { GatewayError } from '../gateway-error.ts'

export interface Deadline {
  readonly clock: Clock
  readonly ms: number
  /** What takes too long, for the error. */
  readonly what: string
}

/** The same, but no later. @throws GatewayError `UNAVAILABLE`; what comes after that is not heard any more */
export function withDeadline<T>(promise: Promise<T>, { clock, ms, what }: Deadline): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () =>
      reject(new GatewayError('UNAVAILABLE', `${what} took longer than ${ms} ms`)),
    )
    void promise.then(resolve, reject).finally(cancel)
  })
}
