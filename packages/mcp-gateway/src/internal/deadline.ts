import type { Clock } from './clock.ts'
import { GatewayError } from '../errors.ts'

export interface TimeLimit<T> {
  readonly clock: Clock
  readonly ms: number
  /** What there is in place of a result, when the time is over. */
  readonly late: () => T | Promise<T>
}

/** The same, or something else when the time is over: what comes after that is not heard any more. */
export function inTime<T>(promise: Promise<T>, { clock, ms, late }: TimeLimit<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(ms, () => resolve(late()))
    void promise.then(resolve, reject).finally(cancel)
  })
}

export interface Deadline {
  readonly clock: Clock
  readonly ms: number
  /** What takes too long, for the error. */
  readonly what: string
}

/** The same, but no later. @throws GatewayError `UNAVAILABLE`; what comes after that is not heard any more */
export function withDeadline<T>(promise: Promise<T>, { clock, ms, what }: Deadline): Promise<T> {
  const late = async (): Promise<never> => {
    throw new GatewayError('UNAVAILABLE', `${what} took longer than ${ms} ms`)
  }
  return inTime(promise, { clock, ms, late })
}
