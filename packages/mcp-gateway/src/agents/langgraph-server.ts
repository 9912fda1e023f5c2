import type { Assistant, Client } from '@langchain/langgraph-sdk'
import { check, isRecord } from '@x/internal'
import type { Check, Checks } from '@x/internal'
import { assertGatewayOptions, GatewayError } from '../errors.ts'
import { systemClock } from '../internal/clock.ts'
import type { Clock } from '../internal/clock.ts'
import { withDeadline } from '../internal/timers.ts'
import type {
  Agent,
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
  JsonSchema,
  Skill,
} from './agent.ts'
import { askedFrom, resumeOf, threadStateFrom } from './langgraph/interrupts.ts'
import { argumentStateOf, messageStateOf, outputOf, readChunk } from './langgraph/messages.ts'
import type { GraphEnd } from './langgraph/messages.ts'

type Headers = Readonly<Record<string, string>>

/** Headers with credentials. A function is called before each request, for tokens that change. */
export type CredentialHeaders = Headers | (() => Headers | Promise<Headers>)

export const credentialHeaders: Check = {
  ...check.or(check.func, check.mapOf(check.string)),
  takes: 'headers by name, or a function that returns them',
}

/**
 * Returns the present headers.
 *
 * @param deadline time limit of the function
 * @throws what the function throws; GatewayError `UNAVAILABLE` after the time limit
 */
export async function headersNow(
  headers: CredentialHeaders,
  deadline: { readonly clock: Clock; readonly ms: number },
): Promise<Headers> {
  if (typeof headers !== 'function') return headers
  return withDeadline(Promise.resolve(headers()), {
    ...deadline,
    what: 'The request for credentials',
  })
}

export interface LangGraphServerSourceOptions {
  /** URL of the server. */
  readonly url: string
  /** Key that is sent to this server. @default none, also if the environment has one */
  readonly apiKey?: string | undefined
  /**
   * Headers of every request. A function is called before each request, for tokens that change, and may take
   * `timeoutMs`. @default none
   */
  readonly headers?: CredentialHeaders | undefined
  /** Names or ids of the assistants to offer. @default all assistants of the server */
  readonly assistants?: readonly string[] | undefined
  /** Milliseconds between two searches for assistants. @default 20_000 */
  readonly refreshMs?: number | undefined
  /** Time limit in milliseconds for the list of assistants, for each schema, and for the deletion of a thread. @default 10_000 */
  readonly timeoutMs?: number | undefined
  /** Called for a server that cannot be reached. @default nothing */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
  /** @default the global `fetch` */
  readonly fetch?: typeof fetch | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

const optionChecks: Checks<LangGraphServerSourceOptions> = {
  url: check.required(check.string), // the constructor checks the rest
  apiKey: check.text,
  headers: credentialHeaders,
  assistants: check.listOf(check.text),
  refreshMs: check.number(),
  timeoutMs: check.number(),
  onWarning: check.func,
  fetch: check.func,
  clock: check.methods('now', 'after'),
}

/**
 * The assistants of a LangGraph server as agents. Needs `@langchain/langgraph-sdk`. A URL is short for `{ url }`.
 *
 * @throws GatewayError `CONFIG` if an option is unknown or has a wrong value
 */
export function langGraphServerSource(given: LangGraphServerSourceOptions | string): AgentSource {
  const options = typeof given === 'string' ? { url: given } : given
  assertGatewayOptions('langGraphServerSource()', options, optionChecks)
  return new LangGraphServerSource(options)
}

class LangGraphServerSource implements AgentSource {
  readonly name: string
  /** First part of the ids of its agents. It can be part of an OAuth scope. */
  readonly #idPrefix: string
  readonly #options: LangGraphServerSourceOptions
  readonly #clock: Clock
  readonly #known = new Map<string, RemoteAssistant>()
  readonly #closing = new AbortController()
  #streamsSubgraphs = false
  #undoRefresh: (() => void) | undefined

  /** @throws GatewayError `CONFIG` if the URL is not http or https */
  constructor(options: LangGraphServerSourceOptions) {
    const url = URL.canParse(options.url) ? new URL(options.url) : undefined
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
      throw new GatewayError(
        'CONFIG',
        'The URL of a LangGraph server must begin with http:// or https://',
      )
    }
    const place = `${url.origin}${url.pathname.replace(/\/$/, '')}`
    this.name = `langgraph-server ${place}`
    this.#idPrefix = `langgraph-server:${place}/`
    this.#options = options
    this.#clock = options.clock ?? systemClock
  }

  async start(listener: AgentListener): Promise<void> {
    await this.#refresh(listener)
  }

  async *run(call: AgentCall): AsyncGenerator<AgentUpdate> {
    const known = this.#known.get(call.agentId)
    if (known === undefined)
      throw new GatewayError(
        'NOT_FOUND',
        'This assistant does not exist, or its server does not list it any more',
      )
    const payload = await payloadOf(known, call)
    if (payload === undefined) {
      yield { type: 'failed', reason: 'It takes named arguments, not a message.' }
      return
    }
    const client = await this.#client(call.trace)
    const thread =
      (call.resume && threadStateFrom(call.resume.state)?.thread) ?? (await threadFor(call, client))
    const isConversation = call.thread !== undefined
    let isKept = isConversation
    let runId: string | undefined
    // The server also ends a run whose stream broke, but notices that later.
    const onAbort = (): void => {
      if (runId !== undefined) void this.#cancelRun(client, thread, runId)
    }
    call.signal.addEventListener('abort', onAbort, { once: true })
    try {
      const end: GraphEnd = { state: undefined, interrupts: [] }
      const stream = client.runs.stream(thread, known.assistantId, {
        ...payload,
        config: { configurable: configurableOf(call) },
        streamMode: ['messages-tuple', 'updates', 'custom', 'values'],
        streamSubgraphs: this.#streamsSubgraphs,
        onDisconnect: 'cancel',
        signal: call.signal,
        onRunCreated: (created) => {
          runId = created.run_id
        },
      })
      for await (const { event, data } of stream) {
        const update = updateFrom(event, data, end)
        if (update !== undefined) yield update
      }
      call.signal.throwIfAborted()
      const isAsking = end.interrupts.length > 0
      isKept ||= isAsking
      if (isAsking) yield askedFrom(end.interrupts, { thread, isConversation })
      else yield* answerFrom(end.state)
    } catch (error) {
      call.signal.throwIfAborted()
      throw error
    } finally {
      call.signal.removeEventListener('abort', onAbort)
      if (!isKept) await this.#deleteThread(client, thread)
    }
  }

  async forget(_agentId: string, state: unknown): Promise<void> {
    const waiting = threadStateFrom(state)
    if (waiting === undefined || waiting.isConversation) return
    await this.#deleteThread(this.#client(), waiting.thread)
  }

  async forgetThread(_agentId: string, thread: string): Promise<void> {
    await this.#deleteThread(this.#client(), thread)
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#undoRefresh?.()
    this.#known.clear()
  }

  /** A new client for each use: it has no connection, and each call has its own trace context. */
  async #client(trace: Readonly<Record<string, string>> = {}): Promise<Client> {
    const { Client: SdkClient } = await import('@langchain/langgraph-sdk')
    const { url, apiKey, headers = {}, timeoutMs: ms = 10_000, fetch: ownFetch } = this.#options
    const clock = this.#clock
    return new SdkClient({
      apiUrl: url,
      // With `undefined` the SDK would send a key from the environment to this server.
      apiKey: apiKey ?? null,
      defaultHeaders: { ...trace },
      onRequest: async (_url, init) => {
        const merged = new Headers(init.headers)
        for (const [name, value] of Object.entries(await headersNow(headers, { clock, ms }))) {
          merged.set(name, value)
        }
        return { ...init, headers: merged }
      },
      // No request is sent twice. The gateway limits the number of calls.
      callerOptions: {
        maxRetries: 0,
        maxConcurrency: Number.POSITIVE_INFINITY,
        ...(ownFetch !== undefined && { fetch: ownFetch }),
      },
    })
  }

  async #refresh(listener: AgentListener): Promise<void> {
    const { refreshMs = 20_000, onWarning } = this.#options
    try {
      await this.#search(listener)
    } catch (error) {
      // Its agents stay until the registry lets them expire.
      if (!this.#closing.signal.aborted) {
        onWarning?.(`${this.name} cannot be reached`, error)
        for (const id of this.#known.keys())
          listener.unreachable?.(id, 'Its server cannot be reached')
      }
    }
    if (this.#closing.signal.aborted) return
    this.#undoRefresh = this.#clock.after(refreshMs, () => void this.#refresh(listener))
  }

  async #search(listener: AgentListener): Promise<void> {
    const { assistants: wanted } = this.#options
    const client = await this.#client()
    const signal = this.#inTime()
    const [found, streamsSubgraphs] = await Promise.all([
      listAssistants(client, signal),
      this.#canStreamSubgraphs(signal),
    ])
    this.#streamsSubgraphs = streamsSubgraphs
    const left = new Set(this.#known.keys())
    const unread: { readonly assistant: Assistant; readonly agentId: string }[] = []
    for (const assistant of found) {
      const { assistant_id: id, name, graph_id: graphId } = assistant
      if (wanted !== undefined && ![id, name, graphId].some((one) => wanted.includes(one))) continue
      const agentId = `${this.#idPrefix}${id}`
      left.delete(agentId)
      if (this.#known.get(agentId)?.version === versionOf(assistant)) {
        listener.seen(agentId)
      } else unread.push({ assistant, agentId })
    }
    for (const agentId of left) {
      this.#known.delete(agentId)
      listener.gone(agentId)
    }
    const queue = unread.values()
    const read = async (): Promise<void> => {
      for (const { assistant, agentId } of queue) {
        const remote = await this.#read(client, assistant, agentId)
        if (this.#closing.signal.aborted) return
        if (remote === undefined) continue
        this.#known.set(agentId, remote)
        listener.found(remote.agent)
      }
    }
    await Promise.all(Array.from({ length: MAX_READS }, read))
  }

  /** Returns `undefined` for an assistant whose schema cannot be read in time. The others are offered. */
  async #read(
    client: Client,
    assistant: Assistant,
    agentId: string,
  ): Promise<RemoteAssistant | undefined> {
    try {
      return await remoteAssistantFrom(client, assistant, { agentId, signal: this.#inTime() })
    } catch (error) {
      const isClosing = this.#closing.signal.aborted
      if (!isClosing)
        this.#options.onWarning?.(`${agentId} is not offered yet: its schema cannot be read`, error)
      return undefined
    }
  }

  #inTime(): AbortSignal {
    return AbortSignal.any([this.#closing.signal, this.#late()])
  }

  /**
   * Returns `false` for the server of `@langchain/langgraph-cli` 2, where a run with `stream_subgraphs` fails after its
   * first nodes ran. That server streams the updates of subgraphs anyway. The SDK has no method for `/info`.
   */
  async #canStreamSubgraphs(signal: AbortSignal): Promise<boolean> {
    const { url, apiKey, headers = {}, timeoutMs: ms = 10_000 } = this.#options
    const { fetch: ask = fetch } = this.#options
    try {
      const own = await headersNow(headers, { clock: this.#clock, ms })
      const response = await ask(`${url.replace(/\/$/, '')}/info`, {
        headers: { ...(apiKey !== undefined && { 'x-api-key': apiKey }), ...own },
        redirect: 'error',
        signal,
      })
      const info: unknown = response.ok ? await response.json() : undefined
      if (!isRecord(info)) return false
      return info['context'] !== 'js' || /^[01]\./.test(String(info['version']))
    } catch {
      return false
    }
  }

  async #cancelRun(client: Client, thread: string, run: string): Promise<void> {
    const signal = this.#late()
    await this.#quietly(() => client.runs.cancel(thread, run, false, 'interrupt', { signal }))
  }

  #late(): AbortSignal {
    return AbortSignal.timeout(this.#options.timeoutMs ?? 10_000)
  }

  async #deleteThread(client: Client | Promise<Client>, thread: string): Promise<void> {
    const signal = this.#late()
    await this.#quietly(async () => (await client).threads.delete(thread, { signal }))
  }

  async #quietly(task: () => Promise<unknown>): Promise<void> {
    try {
      await task()
    } catch (error) {
      this.#options.onWarning?.(`${this.name} could not delete a thread or cancel a run`, error)
    }
  }
}

/** Schemas that are read at the same time. */
const MAX_READS = 8

async function threadFor({ thread, signal }: AgentCall, { threads }: Client): Promise<string> {
  const options = thread !== undefined && { threadId: thread, ifExists: 'do_nothing' as const }
  return (await threads.create({ ...options, signal })).thread_id
}

/** @returns `undefined` if the assistant takes arguments, and the message fits none of them */
async function payloadOf(
  { agent }: RemoteAssistant,
  call: AgentCall,
): Promise<Payload | undefined> {
  if (call.resume !== undefined) return { command: { resume: resumeOf(call.resume) }, input: null }
  const skill = agent.skills.find(({ id }) => id === call.skillId)
  if (skill?.inputSchema === undefined) {
    return { input: { ...(await messageStateOf(call.input, call.signal)) } }
  }
  const input = argumentStateOf(call.input, skill.inputSchema)
  return input && { input }
}

interface Payload {
  readonly command?: { readonly resume: unknown }
  readonly input: Readonly<Record<string, unknown>> | null
}

/** Names the caller. Claims, which may hold a credential, stay in this process. */
function configurableOf({ runId, skillId, principal }: AgentCall): Record<string, unknown> {
  return { runId, skillId, principal: { id: principal.id, isAnonymous: principal.isAnonymous } }
}

/** @throws Error for the event of a failed run */
function updateFrom(event: string, data: unknown, end: GraphEnd): AgentUpdate | undefined {
  if (event === 'error') {
    throw new Error('The run failed at the server', { cause: serverErrorFrom(data) })
  }
  const [mode, ...path] = event.split('|')
  return readChunk([path, mode, isRecord(data) || Array.isArray(data) ? data : undefined], end)
}

/** Error for the log, with the class and the message that the server sent. */
function serverErrorFrom(data: unknown): Error {
  const { error, message } = isRecord(data) ? data : {}
  const texts = [error, message].filter((each) => typeof each === 'string')
  return new Error(texts.join(': ') || 'The server sent no reason')
}

function* answerFrom(state: unknown): Generator<AgentUpdate> {
  const { text, structured, files = [] } = outputOf(state)
  for (const file of files) yield { type: 'file', file }
  yield { type: 'done', text, structured }
}

/** An assistant of the server, as an agent. */
interface RemoteAssistant {
  readonly agent: Agent
  readonly assistantId: string
  /** Changes with each change of the assistant. */
  readonly version: string
}

const PAGE = 100
/** Most pages that are read. */
const MAX_PAGES = 10

/** Lists the assistants of a server, page by page. */
async function listAssistants(client: Client, signal: AbortSignal): Promise<readonly Assistant[]> {
  const all: Assistant[] = []
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const some = await client.assistants.search({ limit: PAGE, offset: page * PAGE, signal })
    all.push(...some)
    if (some.length < PAGE) break
  }
  return all
}

/** Makes an agent of an assistant, with the schema of its input if it takes no messages. */
async function remoteAssistantFrom(
  client: Client,
  assistant: Assistant,
  { agentId, signal }: { readonly agentId: string; readonly signal: AbortSignal },
): Promise<RemoteAssistant> {
  const { assistant_id: assistantId, name, graph_id: graphId } = assistant
  const description = assistant.description ?? ''
  const inputSchema = await inputSchemaOf(client, assistantId, signal)
  const agent: Agent = {
    id: agentId,
    name: name === '' || name === 'Untitled' ? graphId : name,
    description,
    skills: inputSchema === undefined ? [] : [skillFrom(graphId, description, inputSchema)],
    health: 'healthy',
    canAsk: true,
  }
  return { agent, assistantId, version: versionOf(assistant) }
}

function versionOf({ version, updated_at: updatedAt }: Assistant): string {
  return `${version} ${updatedAt}`
}

function skillFrom(graphId: string, description: string, inputSchema: JsonSchema): Skill {
  return { id: graphId, name: '', description, inputSchema, startsFrom: 'arguments' }
}

async function inputSchemaOf(
  client: Client,
  assistantId: string,
  signal: AbortSignal,
): Promise<JsonSchema | undefined> {
  const schemas: unknown = await client.assistants.getSchemas(assistantId, { signal })
  const schema = isRecord(schemas) ? schemas['input_schema'] : undefined
  if (!isRecord(schema) || !isRecord(schema['properties'])) return undefined
  const names = Object.keys(schema['properties'])
  return names.length === 0 || names.includes('messages') ? undefined : schema
}
