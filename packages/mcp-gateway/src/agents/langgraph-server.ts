import { randomUUID } from 'node:crypto'
import type { Assistant, Client } from '@langchain/langgraph-sdk'
import { check, isRecord, type Check, type Checks } from '@x/internal'
import { assertGatewayOptions, GatewayError } from '../errors.ts'
import { systemClock, type Clock } from '../internal/clock.ts'
import { fetchForUser } from '../internal/user-credentials.ts'
import { withDeadline } from '../internal/timers.ts'
import type {
  Agent,
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
  JsonSchema,
} from './agent.ts'
import {
  contextSchemaOf,
  givenBy,
  inputSchemaOf,
  listAssistants,
  requiredIn,
  versionOf,
} from './langgraph/assistants.ts'
import {
  callerContextOf,
  contextChecks,
  contextFailure,
  contextOf,
  contextPlanOf,
  missingContextText,
  type ContextOptions,
} from './langgraph/context.ts'
import { endingOf, UNREAD } from './langgraph/ending.ts'
import { isStopAnswer, STOPPED, threadStateFrom, waitsForAnswer } from './langgraph/interrupts.ts'
import { argumentStateOf, messageStateOf } from './langgraph/messages.ts'
import {
  confirmedResume,
  findRun,
  followRun,
  isUnknown,
  lostAnswer,
  remoteThreadFrom,
  RUN_NAME,
  RunError,
  STREAM_MODE,
  updateFrom,
} from './langgraph/remote-run.ts'
import { newEnd } from './langgraph/stream.ts'

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

export interface LangGraphServerSourceOptions extends ContextOptions {
  /** URL of the server. */
  readonly url: string
  /**
   * Headers of every request, such as `x-api-key`: no key of the environment is sent. A function is called before each
   * one, and may take `timeoutMs`. @default none
   */
  readonly headers?: CredentialHeaders | undefined
  /**
   * Requests of a run carry a token of its user for this resource, as `authorization`. Needs `credentials` of the gateway.
   * @default only `headers`
   */
  readonly resource?: string | undefined
  /** Names or ids of the assistants to offer. @default all assistants of the server */
  readonly assistants?: readonly string[] | undefined
  /** Time limit in milliseconds for the list of assistants, for each schema, and for the deletion of a thread. @default 10_000 */
  readonly timeoutMs?: number | undefined
  /** @default the global `fetch` */
  readonly fetch?: typeof fetch | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

/** Milliseconds between two searches for assistants. The registry drops an agent that was not seen for 60,000. */
const REFRESH_MS = 20_000

const optionChecks: Checks<LangGraphServerSourceOptions> = {
  url: check.required(check.string), // the constructor checks the rest
  headers: credentialHeaders,
  resource: check.text,
  assistants: check.listOf(check.text),
  ...contextChecks,
  timeoutMs: check.number(),
  fetch: check.func,
  clock: check.methods('now', 'after'),
}

/**
 * The assistants of a LangGraph server as agents. Needs `@langchain/langgraph-sdk`. A URL is short for `{ url }`.
 *
 * @throws GatewayError `CONFIG` if an option is unknown or has a wrong value
 * @example
 * ```ts
 * import { createGateway, langGraphServerSource } from '@x/mcp-gateway'
 *
 * const gateway = createGateway({ sources: [langGraphServerSource('http://127.0.0.1:2024')] })
 * ```
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
  readonly #timeoutMs: number
  readonly #known = new Map<string, RemoteAssistant>()
  readonly #closing = new AbortController()
  #streamsSubgraphs = false
  #isPython = false
  #listener: AgentListener | undefined
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
    this.#timeoutMs = options.timeoutMs ?? 10_000
  }

  async start(listener: AgentListener): Promise<void> {
    this.#listener = listener
    await this.#refresh(listener)
  }

  async *run(call: AgentCall): AsyncGenerator<AgentUpdate> {
    const known = this.#known.get(call.agentId)
    if (known === undefined)
      throw new GatewayError(
        'NOT_FOUND',
        'This assistant does not exist, or its server does not list it any more',
      )
    const { remote, resume, signal } = call
    const input = resume === undefined ? await inputOf(known, call) : null
    if (input === undefined) {
      yield { type: 'failed', reason: 'It takes named arguments, not a message.' }
      return
    }
    const client = await this.#client(call)
    const server = { client, clock: this.#clock, signal }
    const joined = remoteThreadFrom(remote?.joined)
    const thread = joined?.thread ?? (await threadFor(call, client))
    const isConversation = call.thread !== undefined
    const kept = { thread, isConversation, context: callerContextOf(call) }
    let isKept = isConversation
    /** The server has not taken the answer: somebody else may use the thread, and the caller has to look into it. */
    let isUnanswered = false
    let runId: string | undefined
    // The server also ends a run whose stream broke, but notices that later.
    const onAbort = (): void => {
      if (runId !== undefined && !remote?.isLeft()) void this.#cancelRun(client, thread, runId)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      const end = newEnd()
      if (joined === undefined) {
        if (resume !== undefined && isStopAnswer(resume)) {
          yield STOPPED
          return
        }
        const context = await this.#contextOf(known, call)
        isUnanswered = resume !== undefined
        const answer = resume && (await confirmedResume(server, thread, resume))
        const name = randomUUID()
        // Before the run exists: another process finds it by its name, whenever this one dies.
        await remote?.store({ thread, isConversation, interrupts: [], run: name })
        const stream = client.runs.stream(thread, known.assistantId, {
          input,
          ...(answer !== undefined && { command: { resume: answer } }),
          ...context,
          streamMode: STREAM_MODE,
          streamSubgraphs: this.#streamsSubgraphs,
          onDisconnect: remote ? 'continue' : 'cancel',
          ...(remote && { metadata: { [RUN_NAME]: name }, durability: 'sync' }),
          // An answer must not wait for a run that may pass its question.
          ...((resume || (remote && !isConversation)) && { multitaskStrategy: 'reject' }),
          signal,
          onRunCreated: (created) => {
            runId = created.run_id
            isUnanswered = false
          },
        })
        try {
          for await (const { event, data } of stream) {
            const update = updateFrom(event, data, end)
            if (update !== undefined) yield update
          }
        } catch (error) {
          // The run goes on when its stream breaks.
          if (!remote || runId === undefined || error instanceof RunError) throw error
          signal.throwIfAborted()
          yield* followRun(server, { thread, runId }, end)
        }
      } else {
        runId = await findRun(server, joined)
        if (runId === undefined) {
          yield { type: 'failed', reason: FORGOTTEN, isUnknown: true }
          return
        }
        end.isBegun = true // the beginning of its stream has passed
        yield* followRun(server, { thread, runId }, end)
      }
      signal.throwIfAborted()
      const state = async () => {
        const read = client.threads.getState(thread, undefined, { subgraphs: true, signal })
        // The thread is at the server, and can continue.
        return end.interrupts.length > 0 ? read : read.catch(() => UNREAD)
      }
      for await (const update of endingOf({ ...kept, end, reader: { state } })) {
        isKept ||= waitsForAnswer(update)
        yield update
      }
    } catch (error) {
      signal.throwIfAborted()
      if (isUnknown(error) && runId !== undefined) {
        yield { type: 'failed', reason: FORGOTTEN, isUnknown: true }
        return
      }
      throw (isUnanswered ? lostAnswer(error) : undefined) ?? error
    } finally {
      signal.removeEventListener('abort', onAbort)
      isKept ||= signal.aborted ? remote?.isLeft() === true : isUnanswered
      if (!isKept && (await remote?.isOwn()) !== false) await this.#deleteThread(client, thread)
    }
  }

  /**
   * Returns the configuration and the context of a run. Servers for Python refuse a run with both.
   *
   * @throws RunFailure if the context is not complete
   */
  async #contextOf({ needed }: RemoteAssistant, call: AgentCall) {
    const configurable = configurableOf(call)
    const context = await contextOf(call, this.#options)
    const [missing] = needed.filter((name) => context?.[name] === undefined)
    if (missing !== undefined) throw contextFailure(missing, this.#options)
    if (context === undefined) return { config: { configurable } }
    return this.#isPython ? { context } : { config: { configurable }, context }
  }

  async forget(_agentId: string, state: unknown): Promise<void> {
    const waiting = threadStateFrom(state)
    if (waiting === undefined) return
    const remote = remoteThreadFrom(state)
    if (remote) {
      await this.#quietly(async () => {
        const client = await this.#client()
        const run = await findRun({ client, clock: this.#clock, signal: this.#late() }, remote)
        if (run !== undefined) await this.#cancelRun(client, remote.thread, run)
      })
    }
    if (!waiting.isConversation) await this.#deleteThread(this.#client(), waiting.thread)
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
  async #client(call?: Pick<AgentCall, 'credentials' | 'trace'>): Promise<Client> {
    const SdkClient = await loadClient()
    const { url, fetch: ownFetch } = this.#options
    const send = call ? this.#fetchFor(call) : ownFetch
    return new SdkClient({
      apiUrl: url,
      // With `undefined` the SDK would send a key from the environment to this server.
      apiKey: null,
      defaultHeaders: { ...call?.trace },
      onRequest: async (_url, init) => {
        const merged = new Headers(init.headers)
        for (const [name, value] of Object.entries(await this.#headers())) merged.set(name, value)
        return { ...init, headers: merged }
      },
      // No request is sent twice. The gateway limits the number of calls.
      callerOptions: {
        maxRetries: 0,
        maxConcurrency: Number.POSITIVE_INFINITY,
        ...(send !== undefined && { fetch: send }),
      },
    })
  }

  /** Returns the `fetch` of one run. Its requests carry a token of the user if the server has a `resource`. */
  #fetchFor({ credentials }: Pick<AgentCall, 'credentials'>): typeof fetch | undefined {
    const { fetch: ownFetch, resource } = this.#options
    if (resource === undefined) return ownFetch
    const send = ownFetch ?? fetch
    return fetchForUser(send, { credentials, target: { server: this.name, resource } })
  }

  async #refresh(listener: AgentListener): Promise<void> {
    try {
      await this.#search(listener)
    } catch (error) {
      // Its agents stay until the registry lets them expire.
      if (!this.#closing.signal.aborted) {
        listener.warned(`${this.name} cannot be reached`, error)
        for (const id of this.#known.keys()) {
          listener.unreachable(id, 'Its server cannot be reached')
        }
      }
    }
    if (this.#closing.signal.aborted) return
    this.#undoRefresh = this.#clock.after(REFRESH_MS, () => void this.#refresh(listener))
  }

  async #search(listener: AgentListener): Promise<void> {
    const { assistants: wanted } = this.#options
    const client = await this.#client()
    const signal = this.#inTime()
    const [found] = await Promise.all([listAssistants(client, signal), this.#readInfo(signal)])
    const left = new Set(this.#known.keys())
    const unread: { readonly assistant: Assistant; readonly agentId: string }[] = []
    for (const assistant of found) {
      const { assistant_id: id, name, graph_id: graphId } = assistant
      if (wanted !== undefined && ![id, name, graphId].some((one) => wanted.includes(one))) continue
      const agentId = `${this.#idPrefix}${id}`
      left.delete(agentId)
      const known = this.#known.get(agentId)
      const isRead = known?.version === versionOf(assistant)
      if (isRead) listener.seen(agentId)
      if (!isRead || known.readAgainAt <= this.#clock.now()) unread.push({ assistant, agentId })
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
        this.#known.set(agentId, remote)
        listener.found(remote.agent)
      }
    }
    await Promise.all(Array.from({ length: MAX_READS }, read))
  }

  /**
   * Makes an agent of an assistant, with the schema of its input if it takes no messages. An assistant whose schemas
   * cannot be read takes a message, until a later search can read them.
   */
  async #read(client: Client, assistant: Assistant, agentId: string): Promise<RemoteAssistant> {
    const { assistant_id: assistantId, name: given, graph_id: graphId } = assistant
    const description = assistant.description ?? ''
    const name = given === '' || given === 'Untitled' ? graphId : given
    const schemas = await this.#schemasOf(client, assistantId, agentId)
    const { input, context, readAgainAt, failures } = schemas
    const { callerSchema, missing } = contextPlanOf(
      context && { ...context, required: requiredIn(context) },
      {
        ...this.#options,
        ...(typeof this.#options.context !== 'function' && {
          context: { ...givenBy(assistant), ...this.#options.context },
        }),
      },
    )
    if (missing.length > 0) this.#listener?.warned(missingContextText(name, missing))
    const skill = {
      id: input === undefined ? agentId : graphId,
      name: '',
      description,
      ...(input && { inputSchema: input, startsFrom: 'arguments' as const }),
      ...(callerSchema && { contextSchema: callerSchema }),
    }
    const agent: Agent = {
      id: agentId,
      name,
      description,
      skills: input === undefined && callerSchema === undefined ? [] : [skill],
      health: 'healthy',
      canAsk: true,
    }
    const needed = requiredIn(context).filter((field) => !(field in givenBy(assistant)))
    return { agent, assistantId, needed, version: versionOf(assistant), readAgainAt, failures }
  }

  async #schemasOf(client: Client, assistantId: string, agentId: string): Promise<Schemas> {
    try {
      const schemas: unknown = await client.assistants.getSchemas(assistantId, {
        signal: this.#inTime(),
      })
      const { input_schema: input, context_schema: context } = isRecord(schemas) ? schemas : {}
      return {
        input: inputSchemaOf(input),
        context: contextSchemaOf(context),
        readAgainAt: Infinity,
        failures: 0,
      }
    } catch (error) {
      const failures = (this.#known.get(agentId)?.failures ?? 0) + 1
      const waitMs = Math.min(READ_AGAIN_MS * 2 ** (failures - 1), MAX_READ_AGAIN_MS)
      if (!this.#closing.signal.aborted) {
        const text = `The schema of ${agentId} cannot be read, so its tool takes a message. It is read again in ${waitMs / 1000} s`
        this.#listener?.warned(text, error)
      }
      const readAgainAt = this.#clock.now() + waitMs
      return { input: undefined, context: undefined, readAgainAt, failures }
    }
  }

  #inTime(): AbortSignal {
    return AbortSignal.any([this.#closing.signal, this.#late()])
  }

  /**
   * Reads what kind of server it is. The server of `@langchain/langgraph-cli` 2 streams the updates of subgraphs anyway: a
   * run with `stream_subgraphs` fails after its first nodes ran. The SDK has no method for `/info`.
   */
  async #readInfo(signal: AbortSignal): Promise<void> {
    const info = await this.#info(signal).catch(() => undefined)
    const isJs = info?.['context'] === 'js'
    this.#isPython = info !== undefined && !isJs
    this.#streamsSubgraphs = this.#isPython || (isJs && /^[01]\./.test(String(info['version'])))
  }

  async #info(signal: AbortSignal): Promise<Readonly<Record<string, unknown>> | undefined> {
    const { url, fetch: ask = fetch } = this.#options
    const response = await ask(`${url.replace(/\/$/, '')}/info`, {
      headers: { ...(await this.#headers()) },
      redirect: 'error',
      signal,
    })
    const info: unknown = response.ok ? await response.json() : undefined
    return isRecord(info) ? info : undefined
  }

  async #cancelRun(client: Client, thread: string, run: string): Promise<void> {
    const signal = this.#late()
    await this.#quietly(() => client.runs.cancel(thread, run, false, 'interrupt', { signal }))
  }

  #late(): AbortSignal {
    return AbortSignal.timeout(this.#timeoutMs)
  }

  #headers(): Promise<Headers> {
    const { headers = {} } = this.#options
    return headersNow(headers, { clock: this.#clock, ms: this.#timeoutMs })
  }

  async #deleteThread(client: Client | Promise<Client>, thread: string): Promise<void> {
    const signal = this.#late()
    await this.#quietly(async () => (await client).threads.delete(thread, { signal }))
  }

  async #quietly(task: () => Promise<unknown>): Promise<void> {
    try {
      await task()
    } catch (error) {
      this.#listener?.warned(`${this.name} could not delete a thread or cancel a run`, error)
    }
  }
}

/** Schemas that are read at the same time. */
const MAX_READS = 8

const FORGOTTEN =
  'The LangGraph server does not know the run of this call any more, or never got it. It may have been executed in part, so it is not started again. Check what it did before you call again.'

async function threadFor(call: AgentCall, { threads }: Client): Promise<string> {
  const { resume, thread, signal } = call
  const waiting = resume && threadStateFrom(resume.state)
  if (waiting) return waiting.thread
  const options = thread !== undefined && { threadId: thread, ifExists: 'do_nothing' as const }
  return (await threads.create({ ...options, signal })).thread_id
}

/** @returns `undefined` if the assistant takes arguments, and the message fits none of them */
async function inputOf({ agent }: RemoteAssistant, call: AgentCall) {
  const skill = agent.skills.find(({ id }) => id === call.skillId)
  if (skill?.inputSchema !== undefined) return argumentStateOf(call.input, skill.inputSchema)
  return { ...(await messageStateOf(call.input, call.signal)) }
}

/** Names the caller. Claims, which may hold a credential, stay in this process. */
function configurableOf({ runId, skillId, principal }: AgentCall): Record<string, unknown> {
  return { runId, skillId, principal: { id: principal.id, isAnonymous: principal.isAnonymous } }
}

/** An assistant of the server, as an agent. */
interface RemoteAssistant {
  readonly agent: Agent
  readonly assistantId: string
  /** Fields of its context that a run has to give. */
  readonly needed: readonly string[]
  /** Changes with each change of the assistant. */
  readonly version: string
  /** When its schemas are read again, in milliseconds since 1970. `Infinity`: they were read. */
  readonly readAgainAt: number
  /** Failures in a row to read its schemas. */
  readonly failures: number
}

interface Schemas extends Pick<RemoteAssistant, 'failures' | 'readAgainAt'> {
  readonly input: JsonSchema | undefined
  readonly context: JsonSchema | undefined
}

/** After the first failure to read schemas. Each further failure doubles the time. */
const READ_AGAIN_MS = 60_000
const MAX_READ_AGAIN_MS = 3_600_000

/** In `try`, a bundler accepts that the package is not installed. @throws GatewayError `CONFIG` */
async function loadClient(): Promise<typeof Client> {
  try {
    const { Client: loaded } = await import('@langchain/langgraph-sdk')
    return loaded
  } catch (cause) {
    const message =
      'A LangGraph server needs a package that cannot be loaded: npm install @langchain/langgraph-sdk'
    throw new GatewayError('CONFIG', message, { cause })
  }
}
