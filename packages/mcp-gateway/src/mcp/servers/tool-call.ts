import {
  BAGGAGE_META_KEY,
  isCallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  TRACEPARENT_META_KEY,
  TRACESTATE_META_KEY,
  type CallToolRequest,
  type CallToolResult,
  type InputRequiredResult,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'

import { mayUse } from '../../internal/principal.ts'
import { GatewayError } from '../../errors.ts'
import type { TraceCarrier } from '../../internal/observer.ts'
import type { AgentInput } from '../../agents/agent-call.ts'
import { inputRequiredResult } from '../../runs/interrupts/input-required.ts'
import type { RequestState } from '../../runs/interrupts/request-state.ts'
import type { RunProgress, RunResume } from '../../runs/run-request.ts'
import type { CheckedArguments } from '../../tools/argument-check.ts'
import { agentsPage, resolveAgentCall } from '../../tools/meta-tools.ts'
import type { PlannedTool } from '../../tools/tool-plan.ts'
import { nearestTools } from '../../tools/visibility.ts'
import type { Caller } from '../caller.ts'
import { clientOf } from '../client-of.ts'
import { resultForClient } from './older-result.ts'
import type { ServerParts } from './server-parts.ts'
import { toolError } from './tool-error.ts'

type Arguments = Readonly<Record<string, unknown>>

/** A call of which it is known what is to be run, and with what. */
interface Order {
  readonly tool: PlannedTool
  readonly given: Arguments
  readonly checked: CheckedArguments
  readonly caller: Caller
}

/** Answers `tools/call`: one run of the agent behind the tool. */
export async function callTool(
  parts: ServerParts,
  server: Server,
  {
    request,
    context,
    trace,
    onTool,
  }: {
    readonly request: CallToolRequest
    readonly context: ServerContext
    /** To hand on in place of the client's. */
    readonly trace?: TraceCarrier | undefined
    /** Told which tool of an agent it is for, once that is known. */
    readonly onTool?: ((name: string) => void) | undefined
  },
): Promise<CallToolResult | InputRequiredResult> {
  const caller = parts.callers.of(context)
  const given = request.params.arguments ?? {}
  if (isTooLong(given, parts.argumentBytes, context)) {
    const message = `The arguments are longer than ${parts.argumentBytes} bytes.`
    return toolError('invalid_arguments', message)
  }
  const own = parts.ownTools?.find(({ definition }) => definition.name === request.params.name)
  if (own) return own.call(caller, given)
  const order = orderOf(parts, request.params.name, { given, caller })
  if ('content' in order) return order
  onTool?.(order.tool.name)
  const call = { tool: order.tool, principal: caller.principal, arguments: order.checked }
  const kept = await parts.results?.get(call)
  if (isCallToolResult(kept)) return server.projectCallToolResult(kept, order.tool.outputSchema)
  const result = await run(parts, server, { order, context, trace })
  if (parts.results && 'content' in result) await parts.results.put(call, result)
  return result
}

/** @throws ProtocolError -32602 for a name that no tool has, as far as this caller may know */
function orderOf(
  { registry }: ServerParts,
  name: string,
  { given, caller }: { readonly given: Arguments; readonly caller: Caller },
): Order | CallToolResult {
  const plan = registry.plan()
  const { principal } = caller
  const tool = plan.byName(name)
  if (tool && mayUse(principal, tool)) {
    const check = tool.check(given)
    if (!check.ok) return toolError('invalid_arguments', check.complaint)
    return { tool, given, checked: check.arguments, caller }
  }
  if (plan.metaTools.some((each) => each.name === name)) {
    if (name === 'agents_list') {
      const answer = agentsPage(plan, principal, given)
      if (!answer.ok) return toolError('invalid_arguments', answer.complaint)
      return { content: [{ type: 'text', text: JSON.stringify(answer.page) }] }
    }
    const resolved = resolveAgentCall(plan, principal, given)
    if (!resolved.ok) return toolError('invalid_arguments', resolved.complaint)
    return { tool: resolved.tool, given, checked: resolved.arguments, caller }
  }
  if (!tool && registry.ownerOf(name, principal) !== undefined) {
    return toolError('agent_gone', `The agent behind ${name} is gone: list the tools again.`)
  }
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown tool: ${name.slice(0, 128)}`, {
    nearest: nearestTools(plan, principal, name),
  })
}

async function run(
  parts: ServerParts,
  server: Server,
  {
    order,
    context,
    trace,
  }: {
    readonly order: Order
    readonly context: ServerContext
    readonly trace: TraceCarrier | undefined
  },
): Promise<CallToolResult | InputRequiredResult> {
  const { tool, given, checked, caller } = order
  // Beside the arguments, for clients that keep it from the model.
  const { _meta: meta } = context.mcpReq
  const key: unknown = meta?.['idempotencyKey']
  if (!isKeyOrNone(key)) {
    const message = `_meta.idempotencyKey must be a text of 1 to ${MAX_KEY_CHARS} characters`
    return toolError('invalid_arguments', message)
  }
  const input = await inputOf(parts, caller, checked)
  if (typeof input === 'string') return toolError('invalid_arguments', input)
  const client = clientOf(server, context)
  const outcome = await parts.runs.call(tool, {
    arguments: withoutResume(given, checked),
    input,
    principal: caller.principal,
    scope: checked.scope,
    sessionScope: caller.scope,
    address: caller.address,
    idempotencyKey: checked.idempotencyKey ?? key,
    clientName: client.name,
    canAsk: client.canAsk,
    canVisit: client.canVisit,
    knowsChoices: client.knowsChoices,
    signal: context.mcpReq.signal,
    progress: progressOf(context, caller, parts.channel),
    resume: resumeOf(context, checked),
    trace: trace ?? traceOf(context),
  })
  if (outcome.type === 'result') {
    const result = resultForClient(outcome.result, server, context)
    return server.projectCallToolResult(result, tool.outputSchema)
  }
  return inputRequiredResult(outcome.forms, await parts.states.mint(outcome.state, context))
}

const MAX_KEY_CHARS = 128

function isKeyOrNone(key: unknown): key is string | undefined {
  if (key === undefined) return true
  return typeof key === 'string' && key !== '' && key.length <= MAX_KEY_CHARS
}

/** Measured only where the request is long enough for it. */
function isTooLong(args: Arguments, limit: number, { http }: ServerContext): boolean {
  const length = http?.req?.headers.get('content-length') ?? undefined
  if (length !== undefined && Number(length) <= limit) return false
  return Buffer.byteLength(JSON.stringify(args)) > limit
}

/** @returns why it cannot be had, as text */
async function inputOf(
  { inputFiles }: ServerParts,
  caller: Caller,
  { input, files: uris }: CheckedArguments,
): Promise<AgentInput | undefined | string> {
  if (input === undefined) return undefined
  if (uris.length === 0) return { ...input, files: [] }
  if (!inputFiles) return 'This gateway keeps no files, so that none can be handed to an agent.'
  try {
    return { ...input, files: await inputFiles(caller, uris) }
  } catch (error) {
    if (GatewayError.is(error)) return error.message
    throw error
  }
}

/** As a continued run compares them; absent where the answer came alone. */
function withoutResume(
  given: Arguments,
  { input, resume }: CheckedArguments,
): Arguments | undefined {
  if (resume === undefined) return given
  if (input === undefined) return undefined
  const { resume: _, ...others } = given
  return others
}

/** As notifications of the call: progress for who asked for it, logs by the level of the client. */
function progressOf(
  { mcpReq }: ServerContext,
  { writable }: Caller,
  channel: ServerParts['channel'],
): RunProgress | undefined {
  const { _meta: meta } = mcpReq
  const progressToken = channel === 'log' ? undefined : meta?.progressToken
  if (progressToken === undefined && channel === 'progress') return undefined
  return async (piece) => {
    // Both at once: the answer may follow before the first was kept.
    const told: Promise<void>[] = []
    if (progressToken !== undefined) {
      const params = { progressToken, ...piece }
      told.push(mcpReq.notify({ method: 'notifications/progress', params }))
    }
    if (channel !== 'progress') told.push(mcpReq.log('info', piece.message))
    await Promise.all(told)
    await writable?.()
  }
}

function resumeOf({ mcpReq }: ServerContext, { resume }: CheckedArguments): RunResume | undefined {
  const state = mcpReq.requestState<RequestState>()
  if (state !== undefined) return { state, responses: mcpReq.inputResponses ?? {} }
  return resume && { state: { run: resume.run }, responses: resume.answers }
}

const TRACE_KEYS = [TRACEPARENT_META_KEY, TRACESTATE_META_KEY, BAGGAGE_META_KEY]

/** As the client sent it, if it did: with the call, else as the headers of a client that knows HTTP only. */
export function traceOf({ mcpReq, http }: ServerContext): TraceCarrier | undefined {
  const { _meta: meta } = mcpReq
  const headers = http?.req?.headers
  const isInMeta = typeof meta?.[TRACEPARENT_META_KEY] === 'string'
  if (!isInMeta && !headers?.has(TRACEPARENT_META_KEY)) return undefined
  const trace: Record<string, string> = {}
  for (const key of TRACE_KEYS) {
    const value = isInMeta ? meta[key] : headers?.get(key)
    if (typeof value === 'string') trace[key] = value
  }
  return trace
}
