import { eventsOf, get, post } from './rpc-requests.ts'
import { oneOf, turns } from './turns.ts'

export interface RacingClientOptions {
  readonly random: () => number
  /** Processes that serve the session. */
  readonly processes: readonly ((request: Request) => Promise<Response>)[]
  readonly headers: Readonly<Record<string, string>>
  /** Probability, from 0 to 1, that the client leaves a connection. */
  readonly leaving: number
  /** Whether the client comes back also after it has all answers. */
  readonly isCurious: boolean
}

interface Answer {
  readonly id?: unknown
  readonly method?: string
  readonly error?: unknown
}

type Asked = (signal: AbortSignal) => Request

/** After so many, the client stays connected. */
const MAX_LEAVES = 4
const MAX_RETURNS = 20

/** A client that sends a POST and reads the answers. It leaves now and then, and comes back to any process. */
export class RacingClient {
  /** Answers in their order, by the id of their request. */
  readonly answers: Map<unknown, Answer[]> = new Map()
  /** All events in order, for the message of a failed test. */
  readonly seen: string[] = []
  /** Status of the first response. */
  status: number | undefined
  /** The client left before it had an event id. */
  isLost = false
  readonly #options: RacingClientOptions
  readonly #replied = new Set<unknown>()
  readonly #forgotten: AbortController[] = []
  #lastId = ''
  #isOver = false
  #leaves = 0

  constructor(options: RacingClientOptions) {
    this.#options = options
  }

  /** Resolves when the client has read everything. */
  async race(body: object): Promise<void> {
    const { headers, isCurious, random } = this.#options
    const expected = Array.isArray(body) ? body.length : 1
    await this.#ask((signal) => post(body, headers, signal))
    for (let returns = 0; this.#lastId !== '' && !this.#isOver; returns++) {
      if (this.answers.size === expected && !isCurious) return
      if (returns === MAX_RETURNS) throw new Error(`There is no end to ${this.seen.join()}`)
      await turns(random, 6)
      const back = { ...headers, 'last-event-id': this.#lastId }
      await this.#ask((signal) => get(back, signal))
    }
  }

  /** Closes the connections that the client left silently. */
  close(): void {
    for (const connection of this.#forgotten) connection.abort()
  }

  async #ask(request: Asked): Promise<void> {
    const { random, processes, leaving } = this.#options
    const connection = new AbortController()
    const isLeaving = random() < leaving && ++this.#leaves <= MAX_LEAVES
    const isSilent = isLeaving && random() < 0.3
    const leave = async (): Promise<void> => {
      await turns(random, 14)
      this.seen.push(isSilent ? 'leaves, unnoticed' : 'leaves')
      if (isSilent) this.#forgotten.push(connection)
      else connection.abort()
      this.isLost = this.#lastId === ''
    }
    const left = isLeaving ? leave() : new Promise<never>(() => undefined)
    const asking = oneOf(random, processes)(request(connection.signal))
    const response = await Promise.race([asking, left])
    if (response) await this.#read(response, left)
  }

  /** @param left resolves when the client leaves before the end */
  async #read(response: Response, left: Promise<void>): Promise<void> {
    const { headers, status } = response
    this.status ??= status
    this.seen.push(String(status))
    if (headers.get('content-type')?.startsWith('text/event-stream') !== true) {
      const text = await response.text()
      if (response.ok && text !== '') this.#note(JSON.parse(text) as Answer)
      this.#isOver = status < 500
      return
    }
    const events = eventsOf(response)
    for (;;) {
      const next = await Promise.race([events.next(), left])
      if (!next) return
      if (next.done) break
      const { id, data } = next.value
      this.#lastId = id ?? this.#lastId
      this.seen.push(data)
      if (data !== '') this.#note(JSON.parse(data) as Answer)
    }
    this.seen.push('end')
  }

  #note(message: Answer): void {
    const { id, method } = message
    if (method === undefined) this.answers.set(id, [...(this.answers.get(id) ?? []), message])
    else if (id !== undefined && !this.#replied.has(id)) void this.#reply(id)
  }

  async #reply(id: unknown): Promise<void> {
    const { random, processes, headers } = this.#options
    this.#replied.add(id)
    await turns(random, 5)
    const result = { action: 'accept', content: { answer: 'yes' } }
    await oneOf(random, processes)(post({ jsonrpc: '2.0', id, result }, headers))
  }
}
