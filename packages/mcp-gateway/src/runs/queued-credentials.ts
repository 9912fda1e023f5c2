import type { Clock } from '../internal/clock.ts'
import type { Principal } from '../internal/principal.ts'
import {
  credentialsOf,
  giveCredentials,
  type UserCredentials,
} from '../internal/user-credentials.ts'
import type { ProcessLease } from '../store/lease.ts'
import type { CallStore } from './call-store.ts'
import type { RunOrder } from './order.ts'

interface QueuedCredentialsOptions {
  readonly clock: Clock
  readonly lease: Pick<ProcessLease, 'id'>
}

interface Kept {
  readonly credentials: UserCredentials
  /** Ends the timer and the watch of the call. */
  readonly release: () => void
}

/** Most tasks whose credentials are kept. */
const MAX_KEPT = 10_000

/**
 * Credentials of queued tasks, in this process only: a task is read from the store, without the object of its principal.
 * They are dropped when another process has the task, when the task has ended, and at the end of the token of the caller.
 */
export class QueuedCredentials {
  readonly #store: Pick<CallStore, 'read' | 'watch'>
  readonly #options: QueuedCredentialsOptions
  readonly #kept = new Map<string, Kept>()

  constructor(store: Pick<CallStore, 'read' | 'watch'>, options: QueuedCredentialsOptions) {
    this.#store = store
    this.#options = options
  }

  /** @param expiresAt end of the task. Milliseconds since 1970 */
  keep({ principal, runId }: Pick<RunOrder, 'principal' | 'runId'>, expiresAt: number): void {
    const credentials = credentialsOf(principal)
    if (!credentials) return
    const { clock } = this.#options
    this.#drop(runId)
    const unwatch = this.#store.watch(runId, () => void this.#dropIfGone(runId))
    const ms = Math.min(expiresAt, tokenEndOf(principal)) - clock.now()
    const cancel = clock.after(Math.max(0, ms), () => this.#drop(runId))
    const release = (): void => {
      cancel()
      unwatch()
    }
    const [oldest] = this.#kept.keys()
    if (this.#kept.size >= MAX_KEPT && oldest !== undefined) this.#drop(oldest)
    this.#kept.set(runId, { credentials, release })
  }

  /** Gives the credentials of a queued run to the principal that was read with it. */
  take({ principal, runId }: Pick<RunOrder, 'principal' | 'runId'>): void {
    const kept = this.#kept.get(runId)
    if (kept) giveCredentials(principal, kept.credentials)
    this.#drop(runId)
  }

  close(): void {
    for (const runId of this.#kept.keys()) this.#drop(runId)
  }

  async #dropIfGone(runId: string): Promise<void> {
    const found = await this.#store.read(runId).catch(() => 'unknown' as const)
    if (found === 'unknown') return
    const state = found?.call.state
    const process = state?.status === 'running' ? state.process : undefined
    // Empty: it is queued. This process takes the credentials after it has claimed the task.
    if (process !== '' && process !== this.#options.lease.id) this.#drop(runId)
  }

  #drop(runId: string): void {
    this.#kept.get(runId)?.release()
    this.#kept.delete(runId)
  }
}

/** Returns when the token of a caller ends, in milliseconds since 1970. `Infinity`: its claims do not say so. */
function tokenEndOf({ claims }: Principal): number {
  const exp = claims['exp']
  return typeof exp === 'number' ? exp * 1000 : Number.POSITIVE_INFINITY
}
