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
import type { JsonSchema } from '../agents/agent.ts'
import { areSchemasPending, refusalsOf, whenSchemasChecked } from '../agents/schemas.ts'
import { GatewayError, textForCaller } from '../errors.ts'
import { sizeOfBlock } from '../files/blocks.ts'
import type { GatewayObserver, ObservedCall, TraceCarrier } from '../internal/observer.ts'
import { mayUse, ownerOf, type Caller, type Principal } from '../internal/principal.ts'
import { wholeCharacters } from '../internal/text.ts'
import { TIMED_OUT, toInputRequests } from '../runs/forms.ts'
import {
  IDEMPOTENCY,
  isKeyEffective,
  newRunId,
  type Execution,
  type RunClient,
  type RunOrder,
  type RunProgress,
  type RunResume,
  type RunSink,
  type ToolOutcome,
} from '../runs/order.ts'
import { toolError } from '../runs/result.ts'
import { TASKS_EXTENSION, toTaskFields } from '../tasks/task-view.ts'
import { taskOwnerOf, type BegunTask } from '../tasks/tasks.ts'
import { argumentsFrom, fittedArguments, type Arguments } from '../tools/fitted-arguments.ts'
import { CONVERSATIONS_TOOL } from '../tools/conversation-tool.ts'
import { RESULT_TOOL } from '../tools/pair.ts'
import type { CheckedArguments, PlannedTool } from '../tools/plan.ts'
import { callConversationTool } from './conversation-calls.ts'
import type { HandlerParts } from './handlers.ts'
import { invalidParams, type Params } from './json-rpc.ts'
import { callResultTool, PAIR_CLIENT, pairOwnerOf, startedResult } from './pair-calls.ts'
import { QuestionTimeout, type ClientInfo, type RequestContext } from './request-context.ts'
import { hasFormChoices, isModern } from './revisions.ts'

/** Result of `tools/call`. `Result`: a task. */
type ToolCallResult = CallToolResult | InputRequiredResult | Result

/** Size of the arguments of one call, as JSON: they go to a model, whose context is smaller. */
export const MAX_ARGUMENT_BYTES = 262_144

interface ToolCall {
  readonly parts: HandlerParts
  readonly context: RequestContext
  readonly name: string
  readonly args: Params
  readonly observed: ObservedCall
  /** The log has a line about its arguments. Each round checks them again. */
  isReported: boolean
}

/** A call whose tool and arguments are known to be right. */
interface Prepared {
  readonly tool: PlannedTool
  readonly checked: CheckedArguments
  readonly order: RunOrder
}

interface Round {
  /** Answers to the questions of the round before. */
  readonly resume?: RunResume | undefined
  /** @default made from the request */
  readonly prepared?: Prepared | undefined
  /** Of a call that may outlive its request. @default that of the request */
  readonly sink?: RunSink | undefined
}

const KEY = `${IDEMPOTENCY}-key`
const RESUMED = `Questions of started work are answered with ${RESULT_TOOL}, not with \`resume\`.`
const REPLAYED = { [IDEMPOTENCY]: { replayed: true } }

/** Tools of the gateway itself. */
const OWN_TOOLS: Readonly<Record<string, typeof callResultTool>> = {
  [RESULT_TOOL]: callResultTool,
  [CONVERSATIONS_TOOL.name]: callConversationTool,
}

/** Reads arguments of a tool of the gateway as they were meant, such as an object that a model wrote as JSON text. */
async function meantArguments(args: Arguments, schema: JsonSchema): Promise<Arguments> {
  await whenSchemasChecked()
  return fittedArguments(args, schema, (value) => refusalsOf(schema, value)).value
}

/** Answers `tools/call`: runs the agent, and asks its questions, until there is a result. */
export async function callTool(
  params: Params,
  context: RequestContext,
  parts: HandlerParts,
): Promise<ToolCallResult> {
  const { name } = params
  const args = argumentsFrom(params['arguments'])
  if (typeof name !== 'string' || !isRecord(args)) {
    const text = 'tools/call needs "name", which is text, and "arguments", which is an object'
    throw invalidParams(text)
  }
  if (areSchemasPending()) await whenSchemasChecked()
  const plan = parts.registry.plan()
  const definition = plan.ownTools.find((tool) => tool.name === name)
  const own = definition && OWN_TOOLS[name]
  if (own) return own(await meantArguments(args, definition.inputSchema), context, parts)
  const tool = plan.byName(name)
  const { starts } = tool ?? {}
  const called = starts?.name ?? name
  const call: ToolCall = {
    parts,
    context,
    name: called,
    args,
    observed: observedCall(called, starts ?? tool, context),
    isReported: false,
  }
  if (starts) return startCall(call)
  let resume: RunResume | undefined = context.continuation
  // The record of the paused run counts the rounds.
  for (;;) {
    const outcome = await beginCall(call, resume)
    if (outcome.type === 'result') return outcome.result
    if (outcome.type === 'task') {
      const replayed = outcome.isReplayed && { _meta: REPLAYED }
      return { resultType: 'task', ...toTaskFields(outcome.task), ...replayed }
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
    if (GatewayError.is(error)) return textForCaller(error)
    return error instanceof Error ? error.message : String(error)
  }
}

/** Reports a call that its caller may not make. It was refused before it was dispatched. */
export function reportRefusedCall(
  observer: Required<GatewayObserver>,
  call: Pick<ObservedCall, 'tool' | 'address' | 'era'> & { readonly principal: Principal },
): void {
  const { id, isAnonymous } = call.principal
  const observed = { ...call, isKnown: true, principal: id, isAnonymous, trace: undefined }
  observer.callStarted(observed)
  const end = { runId: undefined, durationMs: 0, requestBytes: 0, resultBytes: 0 }
  observer.callEnded(observed, { ...end, outcome: 'insufficient_scope' })
}

/** Runs the agent up to its result or its next questions, or makes the call a task. Joins an earlier call with the same key. */
function beginCall(
  call: ToolCall,
  resume: RunResume | undefined,
): Promise<ToolOutcome | BegunTask> {
  const { context, parts } = call
  const prepared = declaresTasks(context.client) ? prepareTaskCall(call, resume) : undefined
  if (!prepared) return run(call, { resume })
  const { order, tool } = prepared
  return parts.tasks.begin({
    owner: taskOwnerOf(context.caller),
    tool,
    order,
    isAlways: tool.tasks === 'always' || tool.tasks === 'required',
    signal: context.signal,
    progress: progressOf(context, parts.channel),
    execute: (sink) => run(call, { prepared, sink }),
  })
}

/** Begins a call of a tool for a client that cannot wait: its result is that of `agent_result`. */
async function startCall(call: ToolCall): Promise<CallToolResult> {
  const { context, parts } = call
  const prepared = prepareTaskCall(call, undefined)
  if (prepared?.checked.resume) return toolError('invalid_arguments', RESUMED)
  const outcome = prepared
    ? await parts.tasks.begin({
        owner: pairOwnerOf(context),
        tool: prepared.tool,
        order: { ...prepared.order, client: PAIR_CLIENT },
        isAlways: true,
        isOnlyTask: true,
        signal: context.signal,
        progress: undefined,
        execute: (sink) => run(call, { prepared, sink }),
      })
    : await run(call, {})
  if (outcome.type === 'task') return startedResult(outcome.task)
  return outcome.type === 'result' ? outcome.result : toolError('needs_input', RESUMED)
}

/** @returns `undefined` for a call that cannot become a task, or fails before its run */
function prepareTaskCall(call: ToolCall, resume: RunResume | undefined): Prepared | undefined {
  try {
    const prepared = prepare(call, resume)
    return 'content' in prepared || prepared.tool.tasks === 'never' ? undefined : prepared
  } catch {
    return undefined // the run fails in the same way
  }
}

/** Runs one round, and reports it. @throws ProtocolError -32602 for a tool that does not exist, or that the caller may not see; -32021 */
function run(call: ToolCall, { prepared, resume, sink }: Round): Promise<ToolOutcome> {
  const { args, context, observed, parts } = call
  return observe(parts, observed, {
    args,
    execute: async (trace) => {
      const ready = prepared ?? prepare(call, resume)
      if ('content' in ready) return { type: 'result', result: ready }
      const { checked, order, tool } = ready
      const key = { tool, principal: context.principal, arguments: checked }
      // In a conversation, also in one without a name, the answer depends on the calls before.
      const isConversation = parts.conversations !== undefined && ownerOf(order) !== undefined
      // After a question, it depends on what the user has answered.
      const isCached = !isConversation && order.resume === undefined
      const cached = isCached ? await parts.results.get(key) : undefined
      if (cached) return { type: 'result', result: cached }
      const outcome = await parts.calls.call({
        tool,
        order: trace ? { ...order, trace } : order,
        sink: sink ?? { signal: context.signal, progress: progressOf(context, parts.channel) },
      })
      // The result of an earlier call with the same key may be old, or depend on answers.
      const isReplayed = metaOf(outcome)[IDEMPOTENCY] !== undefined
      if (isCached && !isReplayed && outcome.type === 'result') {
        await parts.results.put(key, outcome.result)
      }
      return outcome
    },
  })
}

function observedCall(
  name: string,
  tool: PlannedTool | undefined,
  { caller: { address }, client, principal, trace }: RequestContext,
): ObservedCall {
  const { id, isAnonymous } = principal
  const era = isModern(client.protocolVersion) ? 'modern' : 'legacy'
  return {
    tool: name,
    isKnown: tool !== undefined,
    principal: id,
    isAnonymous,
    address,
    era,
    trace,
  }
}

/** @throws ProtocolError -32602, -32021 */
function prepare(call: ToolCall, resume: RunResume | undefined): Prepared | CallToolResult {
  const { args, context, name, parts } = call
  const { bodyBytes = Infinity, principal, trace } = context
  // The arguments are not longer than the request: most need not be serialized to be measured.
  if (
    bodyBytes > MAX_ARGUMENT_BYTES &&
    Buffer.byteLength(JSON.stringify(args)) > MAX_ARGUMENT_BYTES
  ) {
    return toolError(
      'invalid_arguments',
      `The arguments are longer than ${MAX_ARGUMENT_BYTES} bytes.`,
    )
  }
  const tool = parts.registry.plan().byName(name)
  if (!tool || !mayUse(principal, tool)) {
    throw invalidParams(`Unknown tool: ${wholeCharacters(name, 128)}. List the tools again.`)
  }
  const check = tool.check(args)
  if (!check.ok) return toolError('invalid_arguments', check.complaint)
  if (check.leftOut.length > 0) reportLeftOut(call, check.leftOut)
  const { arguments: checked, meant } = check
  if (tool.tasks === 'required') assertDeclared(context.client)
  const { context: given, conversation, files, input, resume: own } = checked
  const { address, scope } = context.caller
  const key = readKey(context.meta, context.caller)
  if (typeof key === 'object') return toolError('invalid_arguments', key.complaint)
  const order: RunOrder = {
    runId: newRunId(),
    // A continued run compares them.
    arguments: input && meant,
    input,
    context: given,
    conversation,
    files,
    principal,
    scope,
    address,
    idempotencyKey: key,
    client: clientOf(context),
    // Clients that cannot ask their user give the answers as an argument.
    resume: resume ?? (own && { state: { run: own.run }, responses: own.answers }),
    trace,
  }
  return { tool, checked, order }
}

const MAX_NAMES = 5

/** Names the fields, but not their values. Other names than identifiers may be texts of a user, and are left out too. */
function reportLeftOut(call: ToolCall, leftOut: readonly string[]): void {
  if (call.isReported) return
  call.isReported = true
  const names = leftOut.filter((name) => /^[\w.$-]{1,64}$/.test(name)).slice(0, MAX_NAMES)
  const more = leftOut.length - names.length
  const listed = [...names.map((name) => `"${name}"`), ...(more > 0 ? [`${more} more`] : [])]
  call.parts.onWarning(
    `A client sent fields that the tool ${call.name} does not have, so they were left out: ${listed.join(', ')}`,
  )
}

/** Continues a call that was stored as data, and reports it. */
export function executeOrder(
  parts: HandlerParts,
  { order, sink, tool }: Execution,
): Promise<ToolOutcome> {
  const { address, arguments: args = {}, principal, trace: stored } = order
  const continued = (trace = stored): Promise<ToolOutcome> =>
    parts.calls.call({ tool, order: { ...order, trace }, sink })
  const { id, isAnonymous } = principal
  const known = { tool: tool.name, isKnown: true, era: 'modern', trace: stored } as const
  const observed = { ...known, principal: id, isAnonymous, address }
  return observe(parts, observed, { args, execute: continued })
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

/**
 * Returns the idempotency key of a call. Clients send it beside the arguments, where their model does not see it.
 *
 * @returns or why the key cannot be used: a client that relies on a key must not find out later
 */
function readKey(
  meta: Params,
  caller: Caller,
): string | undefined | { readonly complaint: string } {
  const key = meta[KEY]
  if (key === undefined) return undefined
  const name = `_meta["${KEY}"]`
  if (typeof key !== 'string' || !/^[\x21-\x7e]{1,255}$/.test(key)) {
    return { complaint: `${name} must be a text of 1 to 255 visible ASCII characters` }
  }
  if (isKeyEffective(caller, key)) return key
  return {
    complaint: `${name} is too short: without a sign-in, callers are told apart by keys that nobody can guess, of 26 characters or more. Nothing was executed.`,
  }
}

/** Returns whether a client sent an idempotency key beside the arguments. It may be invalid. */
export function hasKey(meta: Params): boolean {
  return meta[KEY] !== undefined
}

export function clientOf({ client }: RequestContext): RunClient {
  const { capabilities, protocolVersion } = client
  const { elicitation } = capabilities
  const modes = isRecord(elicitation) ? elicitation : undefined
  const { form, url } = modes ?? {}
  return {
    // Clients of before the modes declare `{}`, and mean forms.
    canAsk: modes !== undefined && (form !== undefined || url === undefined),
    canVisit: url !== undefined,
    knowsChoices: hasFormChoices(protocolVersion),
  }
}

/** Progress goes to clients that asked for it, and log messages by the level of the client. */
function progressOf(
  context: RequestContext,
  channel: HandlerParts['channel'],
): RunProgress | undefined {
  const progress = channel === 'progress' || channel === 'both' ? context.progress : undefined
  if (channel === 'progress' || channel === 'none') return progress
  return async (piece) => {
    // Both begin at once, so that the answer cannot overtake the second.
    await Promise.all([progress?.(piece), context.log('info', piece.message)])
  }
}

const UNKNOWN_TOOL: number = ProtocolErrorCode.InvalidParams

async function observe(
  { clock, observer }: Pick<HandlerParts, 'clock' | 'observer'>,
  observed: ObservedCall,
  {
    args,
    execute: begin,
  }: {
    readonly args: Params
    /** @param trace that of the observer */
    readonly execute: (trace?: TraceCarrier) => Promise<ToolOutcome>
  },
): Promise<ToolOutcome> {
  if (!observer) return begin()
  const startedAt = clock.now()
  const trace = observer.callStarted(observed)
  let result: ToolOutcome | undefined
  let outcome = 'internal'
  try {
    let running: Promise<ToolOutcome> | undefined
    observer.activate(observed, () => {
      running = begin(trace)
    })
    result = await (running ?? begin(trace))
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
      durationMs: clock.now() - startedAt,
      requestBytes: Buffer.byteLength(JSON.stringify(args)),
      resultBytes: bytesOf(result),
    })
  }
}

function metaOf(outcome: ToolOutcome | undefined): Params {
  const { _meta: meta = {} } = outcome?.type === 'result' ? outcome.result : {}
  return meta
}

function runIdOf(outcome: ToolOutcome | undefined): string | undefined {
  if (outcome?.type === 'input') return outcome.state.runId
  const { runId } = metaOf(outcome)
  return typeof runId === 'string' ? runId : undefined
}

function outcomeOf(outcome: ToolOutcome): string {
  if (outcome.type === 'input') return 'asked'
  const { reason } = metaOf(outcome)
  if (outcome.result.isError !== true) return reason === 'needs_input' ? 'asked' : 'ok'
  return typeof reason === 'string' ? reason : 'failed'
}

/** Returns the bytes of texts and files, without the JSON around them: a result is not serialized to be counted. */
function bytesOf(outcome: ToolOutcome | undefined): number {
  if (outcome?.type !== 'result') return 0
  return outcome.result.content.reduce((sum, block) => sum + sizeOfBlock(block), 0)
}
