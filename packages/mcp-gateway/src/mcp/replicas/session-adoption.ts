import type { Principal } from '../../internal/principal.ts'
import { GatewayError } from '../../errors.ts'
import type { Changes } from '../changes/changes.ts'
import type { OpenSessions, SessionNames } from '../sessions/open-sessions.ts'
import { sessionName } from './session-records.ts'
import type { SharedSession } from './shared-session.ts'
import type { SharedSessions } from './shared-sessions.ts'

export interface SessionAdoptionOptions {
  readonly open: OpenSessions
  readonly shared: SharedSessions
  readonly changes: Changes
}

/** Goes on here with sessions that began at another process. */
export class SessionAdoption {
  readonly #options: SessionAdoptionOptions
  readonly #adopting = new Map<string, Promise<SharedSession | undefined>>()

  constructor(options: SessionAdoptionOptions) {
    this.#options = options
  }

  /**
   * Once for all requests that come at the same time.
   *
   * @returns `undefined`: the caller has no such session
   * @throws GatewayError `UNAVAILABLE`, `CLOSED`
   */
  adopt(id: string, principal: Principal): Promise<SharedSession | undefined> {
    const name = sessionName(principal.id, id)
    const before = this.#adopting.get(name)
    if (before) return before
    const adopting = this.#restore({ id, name, principal }).finally(() => {
      this.#adopting.delete(name)
    })
    this.#adopting.set(name, adopting)
    return adopting
  }

  /** Resolves when those that have begun are done. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#adopting.values())
  }

  async #restore(names: SessionNames): Promise<SharedSession | undefined> {
    const { changes, open, shared } = this.#options
    if (open.isClosed) throw new GatewayError('CLOSED', 'The gateway is closed')
    const record = await shared.find(names.name)
    if (!record) return undefined
    await open.end(names.id) // it was idle here, and used elsewhere
    const { scope, createdAt, handshake, level } = record
    const made = await open.make({ ...names, scope, createdAt })
    try {
      await made.session.restore(handshake, level)
      if (open.isClosed) throw new GatewayError('CLOSED', 'The gateway is closed')
    } catch (error) {
      await made.session.close()
      throw error
    }
    const held = open.hold(names, made)
    changes.setFollowed(made.session.server, record.followed)
    open.watch()
    if (!held || (await shared.confirm(held))) return held
    await made.session.close()
    return undefined
  }
}
