import { Connections } from '../debugstate/connections.ts'
import { openSession } from './call-load.ts'
import { listenOf, postOf } from './protocol.ts'
import type { Era } from './protocol.ts'
import { StreamConnection } from './stream-connection.ts'

/** Streams opened at the same time, so that no queue of a server overflows. */
const AT_ONCE = 50
const CHANGED = 'notifications/tools/list_changed'
const SUBSCRIBED = 'notifications/subscriptions/acknowledged'

/** Streams that wait for changes of the list. */
export class ListenerLoad {
  readonly #port: number
  readonly #streams: StreamConnection[] = []
  #told: Promise<readonly number[]> | undefined

  constructor(port: number) {
    this.#port = port
  }

  async open(era: Era, count: number): Promise<void> {
    const sessions = era === 'legacy' ? await openSessions(this.#port, count) : []
    for (let at = 0; at < count; at += AT_ONCE) {
      const requests = Array.from({ length: Math.min(AT_ONCE, count - at) }, (_, index) =>
        era === 'legacy' ? listenOf(sessions[at + index] ?? '') : subscribeOf(at + index),
      )
      const opened = await Promise.all(
        requests.map((request) => StreamConnection.open(this.#port, request)),
      )
      await Promise.all(
        opened.map((each) => each.receives(era === 'legacy' ? ' 200 OK' : SUBSCRIBED)),
      )
      this.#streams.push(...opened)
    }
  }

  /** From now on, each waits for one change. */
  expect(): void {
    this.#told = Promise.all(this.#streams.map((stream) => stream.receives(CHANGED)))
    this.#told.catch(() => undefined) // told to whoever asks
  }

  /** How often each was told of a change since it was last expected: the one that was told most often. */
  mostTold(): number {
    return Math.max(...this.#streams.map((stream) => stream.times(CHANGED)))
  }

  /** When the last one was told, by the shared clock. */
  async lastToldAt(): Promise<number> {
    return Math.max(...((await this.#told) ?? []))
  }
}

/** Opens sessions, a few at a time. @returns their ids */
export async function openSessions(port: number, count: number): Promise<readonly string[]> {
  const sessions: string[] = []
  await using connections = await Connections.open(port, 8)
  await connections.each(count, async (connection) => {
    sessions.push(await openSession(connection))
  })
  return sessions
}

function subscribeOf(id: number): string {
  const params = { notifications: { toolsListChanged: true } }
  return postOf('modern', { method: 'subscriptions/listen', id: id + 1, params })
}
