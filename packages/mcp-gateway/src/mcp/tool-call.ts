import {
  inputRequired,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type InputRequest,
  type InputRequiredResult,
  type Result,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { ArtifactCaller } from '../files/namespaces.ts'
import type { GatewayObserver, ObservedCall, TraceCarrier } from '../internal/observer.ts'
import { mayUse, type Principal } from '../internal/principal.ts'
import type { RunFailureReason } from '../internal/run-event.ts'
import { TIMED_OUT, toInputRequests } from '../runs/forms.ts'
import { IDEMPOTENCY, isKeyEffective, newRunId } from '../runs/order.ts'
import type {
  Execution,
  RunClient,
  RunOrder,
  RunProgress,
  RunResume,
  RunSink,
} from '../runs/order.ts'
import type { Runs } from '../runs/runs.ts'
import { TASKS_EXTENSION } from '../tasks/task.ts'
import type { Questions } from '../tasks/task-executions.ts'
import { newTaskId, taskOwnerOf } from '../tasks/task-records.ts'
import type { BegunTask } from '../tasks/tasks.ts'
import type { CheckedArguments, PlannedTool, ToolDefinition } from '../tools/plan.ts'
import { agentsPage, resolveAgentCall } from '../tools/meta-tools.ts'
import { nearestTools } from '../tools/plan.ts'
import type { HandlerParts } from './handlers.ts'
import type { Params } from './json-rpc.ts'
import { QuestionTimeout, type ClientInfo, type RequestContext } from './request-context.ts'
import { hasFormChoices, isModern } from './revisions.ts'

/** A tool of the gateway itself: it runs no agent, and every caller may call it. */
export interface OwnTool {
  readonly definition: ToolDefinition
  /** Checks the arguments itself. */
  call(caller: ArtifactCaller, args: Params): Promise<CallToolResult>
}

/** Result of `tools/call`. `Result`: a task. */
type ToolCallResult = CallToolResult | InputRequiredResult | Result

/** A tool, and arguments that it takes. */
interface Target {
  readonly tool: PlannedTool
  readonly given: Params
  readonly checked: CheckedArguments
}

/** A call whose tool and arguments are known to be right. */
interface Prepared extends Target {
  readonly order: RunOrder
}

interface RoundOptions {
  /** Answers to the questions of the round before. */
  readonly resume: RunResume | undefined
  /** @default made from the request */
  readonly prepared?: Prepared | undefined
  /** Of a call that may outlive its request. @default that of the request */
  readonly sink?: RunSink | undefined
}

/** One execution, as it is reported. */
interface ObservedExecution {
  readonly observed: ObservedCall
  readonly args: Params
  /**
   * @param trace that of the observer
   * @param onTool is called with the name of the agent's tool, once that is known
   */
  readonly execute: (
    trace: TraceCarrier | undefined,
    onTool: (name: string) => void,
  ) => Promise<CallToolResult | Questions>
}

/** Rounds of questions within one call. */
const MAX_ROUNDS = 8
const MAX_KEY_CHARS = 128

/** A call that fails before its run begins, as a result that the model can read. */
export function toolError(reason: RunFailureReason, text: string): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true, _meta: { reason } }
}

/** Answers `tools/call`: runs the agent, and asks its questions, until there is a result. */
export async function callTool(
  parts: HandlerParts,
  params: Params,
  context: RequestContext,
): Promise<ToolCallResult> {
  const { name, arguments: args = {} } = params
  if (typeof name !== 'string' || !isRecord(args)) {
    const text = 'tools/call needs "name", which is text, and "arguments", which is an object'
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, text)
  }
  const call = new ToolCall(parts, context, { name, args })
  let resume: RunResume | undefined = context.continuation
  for (let round = 1; ; round++) {
    const outcome = await call.begin(resume)
    if ('content' in outcome) return outcome
    if (!('forms' in outcome)) {
      const replayed = outcome.isReplayed && { _meta: { [IDEMPOTENCY]: { replayed: true } } }
      return { ...parts.tasks?.toAnswer(outcome.task), ...replayed }
    }
    if (round > MAX_ROUNDS) {
      return failedQuestion(`the agent asked more than ${MAX_ROUNDS} times in one call`)
    }
    const inputRequests = toInputRequests(outcome.forms)
    const answers = await ask(context, inputRequests)
    if (typeof answers === 'string') return failedQuestion(answers)
    if (answers === undefined) {
      const binding = { method: 'tools/call', principal: context.principal.id }
      const requestState = await parts.states.mint(outcome.state, binding)
      return inputRequired({ inputRequests, requestState })
    }
    resume = { state: outcome.state, responses: answers }
  }
}

/** @returns the answers; why there are none, as text; or `undefined` if the client has to call again with them */
async function ask(
  context: RequestContext,
  requests: Readonly<Record<string, InputRequest>>,
): Promise<Params | string | undefined> {
  try {
    return await context.ask(requests)
  } catch (error) {
    context.signal.throwIfAborted()
    if (error instanceof QuestionTimeout) {
      return Object.fromEntries(Object.keys(requests).map((key) => [key, TIMED_OUT]))
    }
    return error instanceof Error ? error.message : String(error)
  }
}

/** Reports a call that its caller may not make. It was refused before it was dispatched. */
export function reportRefusedCall(
  observer: Required<GatewayObserver> | undefined,
  call: Pick<ObservedCall, 'tool' | 'address' | 'era'> & { readonly principal: Principal },
): void {
  const { id, isAnonymous } = call.principal
  const observed: ObservedCall = { ...call, isKnown: true, principal: id, isAnonymous }
  observer?.callStarted(observed)
  const outcome = 'insufficient_scope'
  observer?.callEnded(observed, { outcome, durationMs: 0, requestBytes: 0, resultBytes: 0 })
}

/** One `tools/call`. */
class ToolCall {
  readonly #parts: HandlerParts
  readonly #context: RequestContext
  readonly #name: string
  readonly #args: Params

  constructor(
    parts: HandlerParts,
    context: RequestContext,
    { name, args }: { readonly name: string; readonly args: Params },
  ) {
    this.#parts = parts
    this.#context = context
    this.#name = name
    this.#args = args
  }

  /** Runs the agent up to its result or its next questions, or makes the call a task. */
  async begin(resume: RunResume | undefined): Promise<CallToolResult | Questions | BegunTask> {
    const context = this.#context
    const { runs, tasks } = this.#parts
    const call = tasks && declaresTasks(context.client) ? this.#taskCall(resume) : undefined
    if (!tasks || !call) return this.#run({ resume })
    const { tool } = call
    const earlier = await earlierCall(runs, call)
    const order = { ...call.order, taskId: earlier?.taskId ?? newTaskId(this.#parts.now()) }
    const prepared = { ...call, order }
    return tasks.begin({
      isRepeated: earlier?.taskId !== undefined,
      claimedId: async () => (await earlierCall(runs, call))?.taskId,
      claim: () => runs.claim(tool, order),
      owner: taskOwnerOf(context.principal, context.namespace),
      tool: tool.name,
      order,
      isAlways: tool.tasks !== 'auto',
      maxRunMs: runs.maxRunMs(tool),
      signal: context.signal,
      progress: progressOf(context, this.#parts.channel),
      execute: (sink) => this.#run({ resume, prepared, sink }),
    })
  }

  /** @returns `undefined` for a call that cannot become a task, or fails before its run */
  #taskCall(resume: RunResume | undefined): Prepared | undefined {
    if (this.#ownTool()) return undefined
    try {
      const prepared = this.#prepare(resume)
      return 'content' in prepared || prepared.tool.tasks === 'never' ? undefined : prepared
    } catch {
      return undefined // the run fails in the same way
    }
  }

  /** Runs one round, and reports it. */
  #run(options: RoundOptions): Promise<CallToolResult | Questions> {
    const { observer } = this.#parts
    if (!observer) return this.#execute(options)
    return observe(this.#parts, observer, {
      observed: this.#observed(),
      args: this.#args,
      execute: (trace, onTool) => this.#execute(options, trace, onTool),
    })
  }

  /** @throws ProtocolError -32602 for a tool that does not exist, or that the caller may not see; -32021 */
  async #execute(
    { prepared, resume, sink }: RoundOptions,
    trace?: TraceCarrier,
    onTool?: (name: string) => void,
  ): Promise<CallToolResult | Questions> {
    const context = this.#context
    const { channel, results, runs } = this.#parts
    const own = this.#ownTool()
    if (own) return own.call(callerOf(context), this.#args)
    const call = prepared ?? this.#prepare(resume)
    if ('content' in call) return call
    const { checked, order, tool } = call
    if (tool.name !== this.#name) onTool?.(tool.name)
    const key = { tool, principal: context.principal, arguments: checked }
    const cached = await results?.get(key)
    if (cached) return cached
    const outcome = await runs.call(
      tool,
      trace ? { ...order, trace } : order,
      sink ?? { signal: context.signal, progress: progressOf(context, channel) },
    )
    if (outcome.type !== 'result') return outcome
    if (results) await results.put(key, outcome.result)
    return outcome.result
  }

  #ownTool(): OwnTool | undefined {
    return this.#parts.ownTools?.find(({ definition }) => definition.name === this.#name)
  }

  /** Serializes the arguments only if the request is long enough for it to matter. */
  #isTooLong(limit: number): boolean {
    const { bodyBytes } = this.#context
    if (bodyBytes !== undefined && bodyBytes <= limit) return false
    return Buffer.byteLength(JSON.stringify(this.#args)) > limit
  }

  #target(): Target | CallToolResult {
    const [name, args] = [this.#name, this.#args]
    const { principal } = this.#context
    const { registry } = this.#parts
    const plan = registry.plan()
    const tool = plan.byName(name)
    if (tool && mayUse(principal, tool)) {
      const check = tool.check(args)
      if (!check.ok) return toolError('invalid_arguments', check.complaint)
      return { tool, given: args, checked: check.arguments }
    }
    if (plan.metaTools.some((each) => each.name === name)) {
      if (name === 'agents_list') {
        const answer = agentsPage(plan, principal, args)
        if (!answer.ok) return toolError('invalid_arguments', answer.complaint)
        return { content: [{ type: 'text', text: JSON.stringify(answer.page) }] }
      }
      const resolved = resolveAgentCall(plan, principal, args)
      if (!resolved.ok) return toolError('invalid_arguments', resolved.complaint)
      return { tool: resolved.tool, given: args, checked: resolved.arguments }
    }
    if (!tool && registry.ownerOf(name, principal) !== undefined) {
      return toolError('agent_gone', `The agent behind ${name} is gone: list the tools again.`)
    }
    const message = `Unknown tool: ${name.slice(0, 128)}`
    const nearest = nearestTools(plan, principal, name)
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, message, { nearest })
  }

  /** @throws ProtocolError -32602, -32021 */
  #prepare(resume: RunResume | undefined): Prepared | CallToolResult {
    const context = this.#context
    const { argumentBytes } = this.#parts
    if (this.#isTooLong(argumentBytes)) {
      return toolError('invalid_arguments', `The arguments are longer than ${argumentBytes} bytes.`)
    }
    const target = this.#target()
    if ('content' in target) return target
    const { tool, given, checked } = target
    if (tool.tasks === 'required') assertDeclared(context.client)
    const caller = {
      principal: context.principal,
      scope: checked.scope,
      sessionScope: context.namespace,
    }
    const key = readKey(context.meta, checked, caller)
    if (typeof key === 'object') return toolError('invalid_arguments', key.complaint)
    const order: RunOrder = {
      runId: newRunId(),
      arguments: withoutResume(given, checked),
      input: checked.input,
      files: checked.files,
      ...caller,
      address: context.address,
      idempotencyKey: key,
      client: clientOf(context),
      resume: resume ?? resumeArgument(checked),
      trace: context.trace,
    }
    return { ...target, order }
  }

  #observed(): ObservedCall {
    const { principal, address, client, trace } = this.#context
    const name = this.#name
    const { registry, ownTools = [] } = this.#parts
    const plan = registry.plan()
    const ownNames = [...plan.metaTools, ...ownTools.map(({ definition }) => definition)]
    return {
      tool: name,
      isKnown: plan.byName(name) !== undefined || ownNames.some((each) => each.name === name),
      principal: principal.id,
      isAnonymous: principal.isAnonymous,
      address,
      era: isModern(client.protocolVersion) ? 'modern' : 'legacy',
      trace,
    }
  }
}

/** Continues a call that was stored as data, and reports it. */
export function executeOrder(
  parts: HandlerParts,
  { order, sink, tool }: Pick<Execution, 'order' | 'sink'> & { readonly tool: PlannedTool },
): Promise<CallToolResult | Questions> {
  const { observer, runs } = parts
  const execute = async (trace = order.trace): Promise<CallToolResult | Questions> => {
    const outcome = await runs.call(tool, { ...order, trace }, sink)
    return outcome.type === 'result' ? outcome.result : outcome
  }
  if (!observer) return execute()
  const { address, arguments: args = {}, principal, trace } = order
  const { id, isAnonymous } = principal
  const observed: ObservedCall = {
    tool: tool.name,
    isKnown: true,
    principal: id,
    isAnonymous,
    address,
    era: 'modern',
    trace,
  }
  return observe(parts, observer, { observed, args, execute })
}

/** Returns the caller of a request, as the file store identifies it. */
export function callerOf({ principal, namespace, address }: RequestContext): ArtifactCaller {
  return { principal, scope: namespace, address }
}

/** Returns whether a request declares that its client knows tasks. Each request does so for itself. */
function declaresTasks({ capabilities, protocolVersion }: ClientInfo): boolean {
  const { extensions } = capabilities
  return isRecord(extensions) && isRecord(extensions[TASKS_EXTENSION]) && isModern(protocolVersion)
}

/** @throws ProtocolError -32021 */
export function assertDeclared(client: ClientInfo): void {
  if (declaresTasks(client)) return
  throw new MissingRequiredClientCapabilityError(
    { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } },
    `This needs a client that declares the extension ${TASKS_EXTENSION} in the request`,
  )
}

function failedQuestion(why: string): CallToolResult {
  const text = `The question of the agent got no answer: ${why}`
  return { content: [{ type: 'text', text }], isError: true }
}

/** @returns `undefined` for a first call, and where the store is away: the run reports that */
async function earlierCall(
  runs: HandlerParts['runs'],
  { order, tool }: Prepared,
): ReturnType<Runs['earlier']> {
  if (order.idempotencyKey === undefined) return undefined
  try {
    return await runs.earlier(tool, order)
  } catch (error) {
    if (error instanceof ProtocolError) throw error
    return undefined
  }
}

/**
 * Returns the idempotency key of a call. Clients send it beside the arguments, where their model does not see it.
 *
 * @returns or why the key cannot be used: a client that relies on a key must not find out later
 */
function readKey(
  meta: Params,
  { idempotencyKey: argument }: CheckedArguments,
  caller: Parameters<typeof isKeyEffective>[0],
): string | undefined | { readonly complaint: string } {
  const { [`${IDEMPOTENCY}-key`]: key, idempotencyKey: alias } = meta
  if (key === undefined) {
    const isUsable = isText(alias, MAX_KEY_CHARS) || alias === undefined
    if (isUsable) return argument ?? alias
    return {
      complaint: `_meta.idempotencyKey must be a text of 1 to ${MAX_KEY_CHARS} characters`,
    }
  }
  const name = `_meta["${IDEMPOTENCY}-key"]`
  if (!isText(key, 255) || !/^[\x21-\x7e]+$/.test(key)) {
    return { complaint: `${name} must be a text of 1 to 255 visible ASCII characters` }
  }
  if (isKeyEffective(caller, key)) return key
  return {
    complaint: `${name} is too short: without a sign-in, callers are told apart by keys that nobody can guess, of 26 characters or more. Nothing was executed.`,
  }
}

/** Returns whether a client sent an idempotency key beside the arguments. It may be invalid. */
export function hasKey(meta: Params): boolean {
  return meta[`${IDEMPOTENCY}-key`] !== undefined || meta['idempotencyKey'] !== undefined
}

function isText(value: unknown, maxLength: number): value is string {
  return typeof value === 'string' && value !== '' && value.length <= maxLength
}

/** Returns the arguments that a continued run compares. `undefined` if the request has nothing but an answer. */
function withoutResume(given: Params, { input, resume }: CheckedArguments): Params | undefined {
  if (resume === undefined) return given
  if (input === undefined) return undefined
  const { resume: _, ...others } = given
  return others
}

export function clientOf({ client, session }: RequestContext): RunClient {
  const elicitation = elicitationOf(client)
  return {
    name: client.name,
    // Clients of before the modes declare `{}`, and mean forms.
    canAsk:
      elicitation !== undefined &&
      (elicitation['form'] !== undefined || elicitation['url'] === undefined),
    canVisit: elicitation?.['url'] !== undefined,
    // Without a session, clients of older revisions are not asked by forms.
    knowsChoices: session === undefined || hasFormChoices(client.protocolVersion),
  }
}

function elicitationOf({ capabilities }: ClientInfo): Params | undefined {
  const { elicitation } = capabilities
  return isRecord(elicitation) ? elicitation : undefined
}

/** Progress goes to clients that asked for it, and log messages by the level of the client. */
function progressOf(
  context: RequestContext,
  channel: HandlerParts['channel'],
): RunProgress | undefined {
  const progress = channel === 'log' ? undefined : context.progress
  if (channel === 'progress') return progress
  return async (piece) => {
    // Both begin at once, so that the answer cannot overtake the second.
    await Promise.all([progress?.(piece), context.log('info', piece.message)])
  }
}

/** Clients that cannot ask their user give the answers as an argument. */
function resumeArgument({ resume }: CheckedArguments): RunResume | undefined {
  return resume && { state: { run: resume.run }, responses: resume.answers }
}

const UNKNOWN_TOOL: number = ProtocolErrorCode.InvalidParams

async function observe(
  { now }: Pick<HandlerParts, 'now'>,
  observer: Required<GatewayObserver>,
  { args, execute, observed }: ObservedExecution,
): Promise<CallToolResult | Questions> {
  const startedAt = now()
  const trace = observer.callStarted(observed)
  let result: CallToolResult | Questions | undefined
  let outcome = 'internal'
  let target: string | undefined
  const onTool = (name: string): void => {
    target = name
  }
  try {
    let running: Promise<CallToolResult | Questions> | undefined
    observer.activate(observed, () => {
      running = execute(trace, onTool)
    })
    result = await (running ?? execute(trace, onTool))
    outcome = outcomeOf(result)
    return result
  } catch (error) {
    const isUnknown = error instanceof ProtocolError && error.code === UNKNOWN_TOOL
    if (isUnknown) outcome = 'unknown_tool'
    throw error
  } finally {
    observer.callEnded(observed, {
      runId: runIdOf(result),
      outcome,
      target,
      durationMs: now() - startedAt,
      requestBytes: Buffer.byteLength(JSON.stringify(args)),
      resultBytes: bytesOf(result),
    })
  }
}

function metaOf(result: CallToolResult | Questions | undefined): Params {
  if (!result || !('content' in result)) return {}
  const { _meta: meta = {} } = result
  return meta
}

function runIdOf(result: CallToolResult | Questions | undefined): string | undefined {
  if (result && !('content' in result)) return result.state.runId
  const { runId } = metaOf(result)
  return typeof runId === 'string' ? runId : undefined
}

function outcomeOf(result: CallToolResult | Questions): string {
  if (!('content' in result)) return 'asked'
  if (result.isError !== true) return 'ok'
  const { reason } = metaOf(result)
  return typeof reason === 'string' ? reason : 'failed'
}

/** Returns the bytes of texts and files, without the JSON around them: a result is not serialized to be counted. */
function bytesOf(result: CallToolResult | Questions | undefined): number {
  if (!result || !('content' in result)) return 0
  let bytes = 0
  for (const block of result.content) {
    if (block.type === 'text') bytes += Buffer.byteLength(block.text)
    else if (block.type === 'image' || block.type === 'audio') bytes += block.data.length
    else if (block.type === 'resource') {
      bytes +=
        'text' in block.resource
          ? Buffer.byteLength(block.resource.text)
          : block.resource.blob.length
    }
  }
  return bytes
}
