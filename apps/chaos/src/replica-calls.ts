// The calls of the scenario `replicas`, made as the documentation tells clients to make them.
import { setTimeout as sleep } from 'node:timers/promises'
import { isRecord } from '@x/internal'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { McpClient, McpClientError } from '@x/mcp-client'
import { TransportError } from '@x/mcp-transport'
import type { UpTo } from './scenario.ts'

export type CallKind = 'plain' | 'key' | 'task' | 'pair' | 'conversation'

/** End of one call. */
export interface CallEnd {
  /** Unique in all runs. The graph notes it with each execution. */
  readonly key: string
  readonly kind: CallKind
  /** `done`: the right answer came. `unknown`, `not-executed`: an error says so. `wrong`: none of them may happen. */
  readonly outcome: 'done' | 'unknown' | 'not-executed' | 'wrong'
  /** Reason for `unknown`, `not-executed` or `wrong`. */
  readonly detail?: string
  /** Duration in milliseconds. */
  readonly ms: number
}

type Result = Readonly<Record<string, unknown>>

/** Limit of a call with all its retries, in milliseconds. Even on a busy machine, only a hang takes so long. */
const CALL_MS = 180_000
/** A call that has not settled then hangs. */
const HANG_MS = 240_000
/** Limit of each request of the desktop client, in milliseconds. */
const REQUEST_MS = 30_000
const CONVERSATION = 'trip'
/** Duration of a node, in milliseconds. */
const NODE_MS = 300

/** A user with three clients: stateless, with sessions, and a desktop client that knows no tasks. */
export class User implements AsyncDisposable {
  readonly ends: CallEnd[] = []
  /** URI of each file of an answer, with the text that it must have. */
  readonly files: Map<string, string> = new Map()
  readonly #name: string
  readonly #upTo: UpTo
  readonly #clients: readonly [McpClient, McpClient]
  readonly #talkers: readonly [McpClient, McpClient]
  readonly #desktop: () => Promise<Client>
  #opening: Promise<Client> | undefined
  #count = 0
  /** Keys of the conversation: all, and those that were answered. */
  readonly #said: string[] = []
  readonly #heard: string[] = []

  constructor({ name, token, urls, upTo }: UserOptions) {
    this.#name = name
    this.#upTo = upTo
    const headers = { authorization: `Bearer ${token}` }
    const open = (url: string, era: 'modern' | 'legacy'): McpClient =>
      new McpClient(
        { url, headers },
        { era, timeoutMs: CALL_MS, handlers: { elicitation: ({ message }) => cardFor(message) } },
      )
    this.#clients = [open(urls.payments, 'modern'), open(urls.payments, 'legacy')]
    this.#talkers = [open(urls.conversations, 'modern'), open(urls.conversations, 'legacy')]
    this.#desktop = async () => {
      const client = new Client({ name: 'desktop', version: '1.0.0' })
      const requestInit = { headers }
      await client.connect(
        new StreamableHTTPClientTransport(new URL(urls.payments), { requestInit }),
      )
      return client
    }
  }

  /** Makes one call of any kind. Resolves when it has settled, or hangs. */
  async callAny(): Promise<void> {
    const kinds = ['plain', 'key', 'task', 'pair', 'conversation'] as const
    await this.call(kinds[this.#upTo(kinds.length)] ?? 'plain')
  }

  async call(kind: CallKind): Promise<CallEnd> {
    const key = `${this.#name}-${++this.#count}`
    const begun = performance.now()
    const late = sleep(HANG_MS, { outcome: 'wrong', detail: 'hangs' } as const, { ref: false })
    const made = this.#make(kind, key).catch(failureOf)
    const settled = await Promise.race([made, late])
    const end = { key, kind, ...settled, ms: Math.round(performance.now() - begun) }
    this.ends.push(end)
    return end
  }

  /** Reads all files again. @returns what is wrong with them */
  async readFiles(): Promise<readonly string[]> {
    const [client] = this.#clients
    const unread: string[] = []
    for (const [uri, text] of this.files) {
      const read = (): Promise<unknown> => client.readResource(uri)
      // A busy gateway may refuse a request (408). To read a file again is harmless.
      const found = await read().catch(read).catch(String)
      if (!JSON.stringify(found).includes(`"text":"${text}"`)) {
        unread.push(`The file ${uri} cannot be read: ${JSON.stringify(found)}`)
      }
    }
    return unread
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#clients, ...this.#talkers].map((client) => client.dispose()))
    await (await this.#opening?.catch(() => undefined))?.close()
  }

  #make(kind: CallKind, key: string): Promise<Settled> {
    const upTo = this.#upTo
    const args = { key, ms: upTo(NODE_MS), asks: upTo(3) === 0 }
    const era = upTo(2)
    const { [era]: client = this.#clients[0] } = this.#clients
    switch (kind) {
      case 'plain':
        return this.#pay(client, args)
      case 'key':
        return this.#payWithKey(client, { ...args, asks: false })
      case 'task':
        return this.#order(args)
      case 'pair':
        return this.#ship(args)
      case 'conversation':
        return this.#talk(this.#talkers[era] ?? this.#talkers[0], args)
    }
  }

  async #pay(client: McpClient, args: Payment, idempotencyKey?: string): Promise<Settled> {
    return this.#paid(await client.callTool('pay', { ...args }, { idempotencyKey }), args)
  }

  /** A repetition gets what the first call got. */
  async #payWithKey(client: McpClient, args: Payment): Promise<Settled> {
    const pay = (): Promise<Settled> => this.#pay(client, args, keyOf(args)).catch(failureOf)
    const first = await pay()
    if (first.outcome !== 'done' && first.outcome !== 'unknown') return first
    const again = await pay()
    if (again.outcome === first.outcome) return first
    // Only the server knows what became of a call whose client lost it.
    if (first.outcome === 'unknown' && again.outcome === 'done') return again
    return { outcome: 'wrong', detail: `${first.outcome}, then ${JSON.stringify(again)}` }
  }

  /** With a key, a task always ends with its result. */
  async #order(args: Payment): Promise<Settled> {
    const [client] = this.#clients
    const options = { idempotencyKey: keyOf(args) }
    const end = this.#paid(await client.callTool('order', { ...args }, options), args)
    return end.outcome === 'unknown' ? { outcome: 'wrong', detail: 'the task was lost' } : end
  }

  /** Started work always ends with its result, once its handle has arrived. */
  async #ship(args: Payment): Promise<Settled> {
    let result: Result
    try {
      result = await this.#callDesktop('ship_start', { ...args })
    } catch {
      return { outcome: 'unknown' }
    }
    let handle: unknown
    for (const until = performance.now() + CALL_MS; performance.now() < until;) {
      const state = isRecord(result['structuredContent']) ? result['structuredContent'] : {}
      handle ??= state['handle']
      if (handle === undefined) return settledBy(result)
      const isOpen = ['working', 'needs_input'].includes(String(state['status']))
      if (!isOpen && reasonOf(result) !== 'unavailable') {
        const end = this.#paid(result, args)
        return end.outcome === 'done' ? end : wrong(result)
      }
      const answers = state['status'] === 'needs_input' ? answersTo(state['questions']) : undefined
      const request = { handle, ...(answers && { answers }) }
      result = await this.#callDesktop('agent_result', request).catch(async () => {
        await sleep(500) // the gateway starts again
        return { structuredContent: { handle, status: 'working' } }
      })
    }
    return { outcome: 'wrong', detail: 'started work has no result' }
  }

  /** The calls of a conversation see the earlier ones that were answered, each once, and no others. */
  async #talk(client: McpClient, { key, ms }: Payment): Promise<Settled> {
    this.#said.push(key)
    const args = { key, ms, conversation: CONVERSATION }
    const result: Result = await client.callTool('note', args)
    if (result['isError'] === true) return settledBy(result)
    const keys = textOf(result).split(' ')
    const isRight =
      keys.at(-1) === key &&
      new Set(keys).size === keys.length &&
      keys.every((each) => this.#said.includes(each)) &&
      this.#heard.every((each) => keys.includes(each))
    if (!isRight) return wrong({ keys, said: this.#said, heard: this.#heard })
    this.#heard.push(key)
    return { outcome: 'done' }
  }

  #paid(result: Result, { key, asks }: Payment): Settled {
    if (result['isError'] === true) return settledBy(result)
    const expected = `${key} paid with ${asks ? `card for ${key}` : 'none'}`
    const content = Array.isArray(result['content']) ? result['content'] : []
    const [uri] = content.flatMap((block: unknown) => uriOf(block) ?? [])
    // Redis was too busy to store the file, and the result says so.
    const isLost = JSON.stringify(content).includes('could not be kept')
    if (textOf(result) !== expected || (uri === undefined && !isLost)) return wrong(result)
    if (uri !== undefined) this.files.set(uri, key)
    return { outcome: 'done' }
  }

  async #callDesktop(name: string, args: Record<string, unknown>): Promise<Result> {
    this.#opening ??= this.#desktop()
    try {
      const client = await this.#opening
      return await client.callTool({ name, arguments: args }, undefined, { timeout: REQUEST_MS })
    } catch (error) {
      const opening = this.#opening
      this.#opening = undefined
      void opening.then((client) => client.close()).catch(() => {})
      throw error
    }
  }
}

export interface UserOptions {
  readonly name: string
  readonly token: string
  readonly urls: { readonly payments: string; readonly conversations: string }
  readonly upTo: UpTo
}

interface Payment {
  readonly key: string
  readonly ms: number
  readonly asks: boolean
}

function keyOf({ key }: Payment): string {
  return `the key of ${key}`.replaceAll(' ', '-')
}

type Settled = Pick<CallEnd, 'outcome' | 'detail'>

function cardFor(message: string): { action: 'accept'; content: { answer: string } } {
  const [, key = ''] = /^Which card for (.*)\?$/.exec(message) ?? []
  return { action: 'accept', content: { answer: `card for ${key}` } }
}

function answersTo(questions: unknown): Record<string, unknown> {
  const asked: readonly unknown[] = Array.isArray(questions) ? questions : []
  const answers = asked.map((question) => {
    const { key, message } = isRecord(question) ? question : {}
    return [String(key), cardFor(String(message)).content]
  })
  return Object.fromEntries(answers)
}

function failureOf(error: unknown): Settled {
  if (error instanceof McpError) return refusedBy(error)
  if (!McpClientError.is(error) || error.outcome === 'executed') return wrong(String(error))
  return { outcome: error.outcome === 'not-executed' ? 'not-executed' : 'unknown' }
}

/** Returns the end of a call that the server answered with an error. */
function refusedBy({ data, message }: McpError): Settled {
  // A client with a session that comes back gets this from the process that lives.
  if (isRecord(data) && data['reason'] === 'outcome_unknown') return { outcome: 'unknown' }
  return TransportError.is(data) && data.status === 503
    ? { outcome: 'not-executed' }
    : wrong(message)
}

/** Returns the end of a call whose result is an error. */
function settledBy(result: Result): Settled {
  const reason = reasonOf(result)
  // `unavailable`: Redis was too busy to store a question.
  if (reason === 'outcome_unknown' || reason === 'unavailable') return { outcome: 'unknown' }
  return reason === 'busy' ? { outcome: 'not-executed' } : wrong(result)
}

function reasonOf({ _meta: meta }: Result): unknown {
  return isRecord(meta) ? meta['reason'] : undefined
}

function wrong(what: unknown): Settled {
  return { outcome: 'wrong', detail: JSON.stringify(what) }
}

function textOf({ content }: Result): string {
  const [first]: readonly unknown[] = Array.isArray(content) ? content : []
  return isRecord(first) ? String(first['text']) : ''
}

function uriOf(block: unknown): string | undefined {
  if (!isRecord(block)) return undefined
  const { uri } = isRecord(block['resource']) ? block['resource'] : block
  return typeof uri === 'string' ? uri : undefined
}
