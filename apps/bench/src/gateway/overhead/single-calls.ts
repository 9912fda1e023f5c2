import { Connections } from '../../debugstate/connections.ts'
import { percentile } from '../../debugstate/percentile.ts'
import { openSession } from '../call-load.ts'
import { callOf, checkEcho, messageFrom, postOf } from '../protocol.ts'
import type { Era } from '../protocol.ts'

/** What is called, and what it answers. */
export interface Asked {
  readonly era: Era
  readonly tool: string
  readonly answer: string
}

/** Calls one tool again and again, the next when the last is done, on a connection that is kept alive. */
export class SingleCalls {
  readonly #port: number
  #calls = 0

  constructor(port: number) {
    this.#port = port
  }

  /** @returns how long half of the calls took at most. @throws Error for the first answer that is wrong */
  async run({ era, tool, answer }: Asked, times: number): Promise<{ readonly p50Us: number }> {
    const latencies = new Float64Array(times)
    let session: string | undefined
    await using connections = await Connections.open(this.#port, 1)
    await connections.each(times, async (connection, turn) => {
      if (era === 'legacy') session ??= await openSession(connection)
      const id = ++this.#calls
      const request = postOf(era, callOf(id, tool), session)
      const sentAt = performance.now()
      const { status, body } = await connection.ask(request)
      latencies[turn] = performance.now() - sentAt
      if (status !== 200) throw new Error(`A call was answered with ${status}: ${body}`)
      checkEcho(messageFrom(body), id, answer)
    })
    return { p50Us: percentile(latencies, 0.5) * 1000 }
  }
}
