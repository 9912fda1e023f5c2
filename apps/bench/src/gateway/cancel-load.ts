import { Connections } from '../debugstate/connections.ts'
import { openSession } from './call-load.ts'
import { nowUs } from './now-us.ts'
import { callOf, deleteOf, postOf } from './protocol.ts'
import type { Era } from './protocol.ts'
import { StreamConnection } from './stream-connection.ts'

/** Calls that do not end by themselves, and ways to be rid of them. */
export class CancelLoad {
  readonly #port: number
  #open: readonly {
    readonly stream: StreamConnection
    readonly id: number
    readonly session: string | undefined
  }[] = []

  constructor(port: number) {
    this.#port = port
  }

  /** @param isApart each in a session of its own, where there are any */
  async begin(
    era: Era,
    tool: string,
    { count, isApart }: { readonly count: number; readonly isApart: boolean },
  ): Promise<void> {
    await using connections = await Connections.open(this.#port, 1)
    const sessions: string[] = []
    if (era === 'legacy') {
      await connections.each(isApart ? count : 1, async (connection) => {
        sessions.push(await openSession(connection))
      })
    }
    this.#open = await Promise.all(
      Array.from({ length: count }, async (_, index) => {
        const session = sessions[index] ?? sessions[0]
        const id = index + 1
        const request = postOf(era, callOf(id, tool), session)
        return { stream: await StreamConnection.open(this.#port, request), id, session }
      }),
    )
  }

  /** Leaves all calls alone. @returns when it began, by the shared clock */
  drop(): number {
    const at = nowUs()
    for (const { stream } of this.#open) stream.drop()
    return at
  }

  /** Tells of each call that it is not wanted any more. */
  async tell(): Promise<number> {
    await using connections = await Connections.open(this.#port, this.#open.length)
    const at = nowUs()
    await connections.each(this.#open.length, async (connection, turn) => {
      const { id, session } = this.#open[turn] ?? {}
      const message = { method: 'notifications/cancelled', params: { requestId: id } }
      await connection.ask(postOf('legacy', message, session))
    })
    return at
  }

  /** Ends the sessions of all calls. */
  async delete(): Promise<number> {
    await using connections = await Connections.open(this.#port, this.#open.length)
    const at = nowUs()
    await connections.each(this.#open.length, async (connection, turn) => {
      await connection.ask(deleteOf(this.#open[turn]?.session ?? ''))
    })
    return at
  }
}
