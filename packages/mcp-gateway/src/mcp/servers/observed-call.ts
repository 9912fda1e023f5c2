import {
  ProtocolError,
  type CallToolRequest,
  type CallToolResult,
  type InputRequiredResult,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'

import type { GatewayObserver, ObservedCall } from '../../internal/observer.ts'
import type { Caller } from '../caller.ts'
import type { ServerParts } from './server-parts.ts'
import { callTool, traceOf } from './tool-call.ts'

interface Asked {
  readonly request: CallToolRequest
  readonly context: ServerContext
}

const UNKNOWN_TOOL: number = -32602

type Result = CallToolResult | InputRequiredResult

/** `callTool`, told to whoever observes. */
export function observedCall(parts: ServerParts, server: Server, asked: Asked): Promise<Result> {
  const { observer } = parts
  return observer ? tell(parts, server, { ...asked, observer }) : callTool(parts, server, asked)
}

async function tell(
  parts: ServerParts,
  server: Server,
  { request, context, observer }: Asked & { readonly observer: Required<GatewayObserver> },
): Promise<Result> {
  const call = callFrom(parts, { request, context })
  const startedAt = parts.now()
  const trace = observer.callStarted(call)
  let result: Result | undefined
  let outcome = 'internal'
  let target: string | undefined
  const onTool = (name: string): void => {
    if (name !== call.tool) target = name
  }
  try {
    let running: Promise<Result> | undefined
    observer.activate(call, () => {
      running = callTool(parts, server, { request, context, trace, onTool })
    })
    result = await (running ?? callTool(parts, server, { request, context, trace, onTool }))
    outcome = outcomeOf(result)
    return result
  } catch (error) {
    const isUnknown = error instanceof ProtocolError && error.code === UNKNOWN_TOOL
    if (isUnknown) outcome = 'unknown_tool'
    throw error
  } finally {
    const runId = metaOf(result)['runId']
    observer.callEnded(call, {
      runId: typeof runId === 'string' ? runId : undefined,
      outcome,
      target,
      durationMs: parts.now() - startedAt,
      requestBytes: Buffer.byteLength(JSON.stringify(request.params.arguments ?? {})),
      resultBytes: bytesOf(result),
    })
  }
}

interface Refused {
  readonly tool: string
  readonly caller: Caller
  readonly era: ObservedCall['era']
}

/** A call that its caller may not make: it is answered before anything is dispatched. */
export function tellRefused(
  observer: Required<GatewayObserver> | undefined,
  { tool, caller: { principal, address }, era }: Refused,
): void {
  const { id, isAnonymous } = principal
  const call: ObservedCall = { tool, isKnown: true, principal: id, isAnonymous, address, era }
  observer?.callStarted(call)
  const outcome = 'insufficient_scope'
  observer?.callEnded(call, { outcome, durationMs: 0, requestBytes: 0, resultBytes: 0 })
}

function callFrom(
  { callers, registry, ownTools = [] }: ServerParts,
  { request, context }: Asked,
): ObservedCall {
  const { principal, address } = callers.of(context)
  const { name } = request.params
  const plan = registry.plan()
  const ownNames = [...plan.metaTools, ...ownTools.map(({ definition }) => definition)]
  return {
    tool: name,
    isKnown: plan.byName(name) !== undefined || ownNames.some((each) => each.name === name),
    principal: principal.id,
    isAnonymous: principal.isAnonymous,
    address,
    era: context.mcpReq.envelope === undefined ? 'legacy' : 'modern',
    trace: traceOf(context),
  }
}

function metaOf(result: Result | undefined): Readonly<Record<string, unknown>> {
  const { _meta: meta = {} } = result ?? {}
  return meta
}

function outcomeOf(result: Result): string {
  if (!('content' in result)) return 'asked'
  if (result.isError !== true) return 'ok'
  const reason = metaOf(result)['reason']
  return typeof reason === 'string' ? reason : 'failed'
}

/** Of texts and files, without what JSON puts around them: a result is not written twice to be counted. */
function bytesOf(result: Result | undefined): number {
  if (!result || !('content' in result) || !Array.isArray(result.content)) return 0
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
