import type { requestOf, notificationOf } from './messages.ts'

export type Request = ReturnType<typeof requestOf>
export type Notification = ReturnType<typeof notificationOf>

/** One way to speak to the server: the same calls, and whatever each costs. */
export interface Contender extends AsyncDisposable {
  /** Opens the session, if it has one. */
  open(): Promise<void>
  /** Sends a request; resolves to its answer. Other messages go to `onMessage`. */
  call(request: Request, onMessage?: (message: unknown) => void): Promise<unknown>
  /** Resolves when the server has accepted it. */
  notify(notification: Notification): Promise<void>
}
