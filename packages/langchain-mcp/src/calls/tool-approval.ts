import { ToolMessage } from '@langchain/core/messages'
import { graphPlaceOf } from '../interrupts/graph-place.ts'
import { loadLangGraph } from '../interrupts/langgraph-runtime.ts'
import { isRecord } from '../is-record.ts'
import { McpToolError } from '../mcp-tool-error.ts'
import { canonicalJson } from '../schema/canonical-json.ts'
import type { ToolCallRequest, ToolInterceptor } from './tool-interceptor.ts'
import { serverTitle } from '../tool-origin.ts'
import type { ToolDefinition } from '../catalogue/tool-source.ts'

/**
 * Which calls a person has to approve: a function says it of each. `'destructive'`: those of tools that may
 * destroy something. That is every tool that is neither `readOnlyHint: true` nor `destructiveHint: false`
 * (specification, "Tool Annotations"). The hints are the server's own words: where it is not trusted,
 * decide by name.
 */
export type Approve = 'destructive' | ((call: ToolCallRequest) => boolean | Promise<boolean>)

/**
 * What a graph is interrupted with. It is that of LangChain's human-in-the-loop middleware, so what shows
 * and answers its interrupts does so with these.
 */
export interface ApprovalRequest {
  readonly actionRequests: readonly [
    {
      readonly name: string
      readonly args: Readonly<Record<string, unknown>>
      readonly description: string
    },
  ]
  readonly reviewConfigs: readonly [
    {
      readonly actionName: string
      /** Without `edit` where a sensitive value is hidden. */
      readonly allowedDecisions: readonly ('approve' | 'edit' | 'reject')[]
      readonly argsSchema?: Readonly<Record<string, unknown>>
    },
  ]
  /** Why it is asked again: what was answered before is no decision on this call. */
  readonly problem?: string
}

type Decision =
  | { readonly type: 'approve' }
  | { readonly type: 'edit'; readonly args: Readonly<Record<string, unknown>> }
  | { readonly type: 'reject'; readonly message: string | undefined }

/** Whether a tool may destroy something, as far as its annotations say. */
export function mayDestroy({ annotations }: ToolDefinition): boolean {
  return annotations?.readOnlyHint !== true && annotations?.destructiveHint !== false
}

/**
 * Interrupts the graph before a call that a person has to approve. Stands next to the server: what is shown
 * is what will be sent.
 */
export function approvalInterceptor(approve: Approve): ToolInterceptor {
  return async function approved(request, next) {
    const isNeeded = approve === 'destructive' ? mayDestroy(request.tool) : await approve(request)
    if (!isNeeded) return next()
    const decision = await decisionOn(request)
    switch (decision.type) {
      case 'approve':
        return next()
      case 'edit':
        return next({ args: decision.args })
      case 'reject':
        return rejection(request, decision.message)
    }
  }
}

async function decisionOn(request: ToolCallRequest): Promise<Decision> {
  const place = graphPlaceOf(request.config)
  if (place === undefined) {
    throw unasked(request, 'the tool was not called by a model in a graph with a checkpointer')
  }
  if (!place.isAlone) {
    throw unasked(
      request,
      'several calls run in one node of the graph, and on resume all of them would be executed again. Run each in a task of its own, as createAgent() and fanOutToolCalls() do',
    )
  }
  const langGraph = await loadLangGraph()
  if (langGraph === undefined) throw unasked(request, '@langchain/langgraph is not installed')
  const question = approvalRequestFrom(request)
  // What is no decision asks again: a stale or broken form must neither run the tool nor end the graph.
  let problem: string | undefined
  for (;;) {
    const answer: unknown = langGraph.interrupt({
      ...question,
      ...(problem !== undefined && { problem }),
    })
    const decision = decisionFrom(answer, question)
    if (decision !== undefined) return decision
    const [{ allowedDecisions }] = question.reviewConfigs
    problem = `The answer is no decision: resume with { decisions: [{ type }] }, of type ${allowedDecisions.join(', ')}`
  }
}

function approvalRequestFrom(request: ToolCallRequest): ApprovalRequest {
  const { name, server, tool } = request
  const args = request.withoutSecrets(request.args)
  // What is not shown cannot be sent back.
  const canEdit = canonicalJson(args) === canonicalJson(request.args)
  const title = tool.annotations?.title ?? tool.title ?? tool.name
  const description = `MCP tool "${title}" of server "${serverTitle(server)}" is about to be called`
  const { inputSchema: argsSchema } = tool
  return {
    actionRequests: [{ name, args, description }],
    reviewConfigs: [
      {
        actionName: name,
        allowedDecisions: canEdit ? ['approve', 'edit', 'reject'] : ['approve', 'reject'],
        ...(argsSchema !== undefined && { argsSchema }),
      },
    ],
  }
}

/** `{ decisions: [decision] }`, as the human-in-the-loop middleware is resumed with. */
function decisionFrom(
  value: unknown,
  { reviewConfigs: [{ allowedDecisions }] }: ApprovalRequest,
): Decision | undefined {
  const decisions: unknown = isRecord(value) ? value['decisions'] : undefined
  const [decision]: readonly unknown[] = Array.isArray(decisions) ? decisions : []
  if (!isRecord(decision)) return undefined
  const { type, editedAction, message } = decision
  if (type === 'approve') return { type }
  if (type === 'reject') return { type, message: typeof message === 'string' ? message : undefined }
  const args: unknown = isRecord(editedAction) ? editedAction['args'] : undefined
  const isEdit = type === 'edit' && allowedDecisions.includes(type)
  return isEdit && isRecord(args) ? { type, args } : undefined
}

function rejection({ name, config }: ToolCallRequest, message: string | undefined): ToolMessage {
  const content =
    message ?? `The call of "${name}" was not approved, so it was not executed. Do not repeat it.`
  return new ToolMessage({
    status: 'error',
    content,
    name,
    tool_call_id: config.toolCall?.id ?? '',
  })
}

function unasked({ server, tool }: ToolCallRequest, why: string): McpToolError {
  return new McpToolError(
    'APPROVAL_REQUIRED',
    `MCP tool "${tool.name}" of server "${serverTitle(server)}" needs the approval of a person, who cannot be asked here: ${why}. It was not executed; repeating the call will not help.`,
    { server, toolName: tool.name, category: 'user', outcome: 'not-executed' },
  )
}
