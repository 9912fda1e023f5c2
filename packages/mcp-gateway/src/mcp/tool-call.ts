import {
  inputRequired,
  isCallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type InputRequest,
  type InputRequiredResult,
} from '@modelcontextprotocol/server'

import { isRecord } from '@x/internal'
import type { ArtifactCaller } from '../files/namespaces.ts'
import type { GatewayObserver, ObservedCall, TraceCarrier } from '../internal/observer.ts'
import { mayUse, type Principal } from '../internal/principal.ts'
import type { RunFailureReason } from '../internal/run-event.ts'
import { TIMED_OUT, toInputRequests } from '../runs/forms.ts'
import { newRunId } from '../runs/order.ts'
import type { RunClient, RunOrder, RunProgress, RunResume, ToolOutcome } from '../runs/order.ts'
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

/** Result of `tools/call`. */
export type ToolCallResult = CallToolResult | InputRequiredResult

/** A call whose tool and arguments are known to be right. */
interface Order {
  readonly tool: PlannedTool
  readonly given: Params
  readonly checked: CheckedArguments
}

/** Questions of an agent that has not finished. */
type Questions = Extract<ToolOutcome, { type: 'input' }>

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
    const outcome = await call.round(resume)
    if ('content' in outcome) return outcome
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
  /** Tool of the agent, where the call names it in its arguments. */
  #target: string | undefined

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

  /**
   * Runs the agent until it has a result or asks, and reports that.
   *
   * @param resume answers to the questions of the round before
   * @throws ProtocolError -32602 for a tool that does not exist, or that the caller may not see
   */
  round(resume: RunResume | undefined): Promise<CallToolResult | Questions> {
    const { observer } = this.#parts
    return observer ? this.#observed(resume, observer) : this.#run(resume, this.#context.trace)
  }

  async #observed(
    resume: RunResume | undefined,
    observer: Required<GatewayObserver>,
  ): Promise<CallToolResult | Questions> {
    const { now } = this.#parts
    const observed = this.#facts()
    const startedAt = now()
    const trace = observer.callStarted(observed) ?? this.#context.trace
    let result: CallToolResult | Questions | undefined
    let outcome = 'internal'
    try {
      let running: Promise<CallToolResult | Questions> | undefined
      observer.activate(observed, () => {
        running = this.#run(resume, trace)
      })
      result = await (running ?? this.#run(resume, trace))
      outcome = outcomeOf(result)
      return result
    } catch (error) {
      const isUnknown = error instanceof ProtocolError && error.code === UNKNOWN_TOOL
      if (isUnknown) outcome = 'unknown_tool'
      throw error
    } finally {
      const { runId } = metaOf(result)
      observer.callEnded(observed, {
        runId: typeof runId === 'string' ? runId : undefined,
        outcome,
        target: this.#target,
        durationMs: now() - startedAt,
        requestBytes: Buffer.byteLength(JSON.stringify(this.#args)),
        resultBytes: bytesOf(result),
      })
    }
  }

  #facts(): ObservedCall {
    const { principal, address, client, trace } = this.#context
    const { registry, ownTools = [] } = this.#parts
    const plan = registry.plan()
    const ownNames = [...plan.metaTools, ...ownTools.map(({ definition }) => definition)]
    return {
      tool: this.#name,
      isKnown:
        plan.byName(this.#name) !== undefined || ownNames.some(({ name }) => name === this.#name),
      principal: principal.id,
      isAnonymous: principal.isAnonymous,
      address,
      era: isModern(client.protocolVersion) ? 'modern' : 'legacy',
      trace,
    }
  }

  async #run(
    resume: RunResume | undefined,
    trace: TraceCarrier | undefined,
  ): Promise<CallToolResult | Questions> {
    const args = this.#args
    const name = this.#name
    const { argumentBytes, ownTools, results } = this.#parts
    if (this.#isTooLong(argumentBytes)) {
      return toolError('invalid_arguments', `The arguments are longer than ${argumentBytes} bytes.`)
    }
    const own = ownTools?.find(({ definition }) => definition.name === name)
    if (own) return own.call(callerOf(this.#context), args)
    const order = this.#order()
    if ('content' in order) return order
    const { tool, checked } = order
    this.#target = tool.name === name ? undefined : tool.name
    const key = { tool, principal: this.#context.principal, arguments: checked }
    const cached = await results?.get(key)
    if (isCallToolResult(cached)) return cached
    const result = await this.#execute(order, resume, trace)
    if (results && 'content' in result) await results.put(key, result)
    return result
  }

  /** Serializes the arguments only if the request is long enough for it to matter. */
  #isTooLong(limit: number): boolean {
    const { bodyBytes } = this.#context
    if (bodyBytes !== undefined && bodyBytes <= limit) return false
    return Buffer.byteLength(JSON.stringify(this.#args)) > limit
  }

  #order(): Order | CallToolResult {
    const args = this.#args
    const name = this.#name
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

  async #execute(
    order: Order,
    resume: RunResume | undefined,
    trace: TraceCarrier | undefined,
  ): Promise<CallToolResult | Questions> {
    const context = this.#context
    const { tool, given, checked } = order
    // Clients may send the key beside the arguments, where their model does not see it.
    const { idempotencyKey: key } = context.meta
    if (!isKeyOrNone(key)) {
      const message = `_meta.idempotencyKey must be a text of 1 to ${MAX_KEY_CHARS} characters`
      return toolError('invalid_arguments', message)
    }
    const run: RunOrder = {
      runId: newRunId(),
      arguments: withoutResume(given, checked),
      input: checked.input,
      files: checked.files,
      principal: context.principal,
      scope: checked.scope,
      sessionScope: context.namespace,
      address: context.address,
      idempotencyKey: checked.idempotencyKey ?? key,
      client: clientOf(context),
      resume: resume ?? resumeArgument(checked),
      trace,
    }
    const outcome = await this.#parts.runs.call(tool, run, {
      signal: context.signal,
      progress: progressOf(context, this.#parts.channel),
    })
    return outcome.type === 'result' ? outcome.result : outcome
  }
}

/** Returns the caller of a request, as the file store identifies it. */
export function callerOf({ principal, namespace, address }: RequestContext): ArtifactCaller {
  return { principal, scope: namespace, address }
}

function failedQuestion(why: string): CallToolResult {
  const text = `The question of the agent got no answer: ${why}`
  return { content: [{ type: 'text', text }], isError: true }
}

function isKeyOrNone(key: unknown): key is string | undefined {
  if (key === undefined) return true
  return typeof key === 'string' && key !== '' && key.length <= MAX_KEY_CHARS
}

/** Returns the arguments that a continued run compares. `undefined` if the request has nothing but an answer. */
function withoutResume(given: Params, { input, resume }: CheckedArguments): Params | undefined {
  if (resume === undefined) return given
  if (input === undefined) return undefined
  const { resume: _, ...others } = given
  return others
}

function clientOf({ client, session }: RequestContext): RunClient {
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

function metaOf(result: CallToolResult | Questions | undefined): Params {
  if (!result || !('content' in result)) return {}
  const { _meta: meta = {} } = result
  return meta
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
