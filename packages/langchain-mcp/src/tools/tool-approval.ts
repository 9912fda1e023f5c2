import { ToolMessage } from '@langchain/core/messages'
import { canonicalJson, isRecord } from '@x/internal'
import { createHash } from 'node:crypto'
import { McpToolError, unknownOutcomeText } from '../base/errors.ts'
import { serverTitle, type ToolDefinition } from '../base/tool-source.ts'
import { askPerson, type ReadAnswer } from '../interrupts/ask-person.ts'
import type { ApprovalDecision, ApprovalRequest } from '../interrupts/interrupt-value.ts'
import { graphPlaceOf, loadLangGraph } from '../interrupts/langgraph.ts'
import type { ToolCallRequest, ToolInterceptor } from './interceptors.ts'

/**
 * Selects the calls that a person has to approve, by a function of the call. `'destructive'` selects tools
 * that may destroy something: all without `readOnlyHint: true` and `destructiveHint: false` (specification,
 * "Tool Annotations"). These hints come from the server; for an untrusted server, select by name.
 */
export type Approve = 'destructive' | ((call: ToolCallRequest) => boolean | Promise<boolean>)

/** Returns true if a tool may destroy something, by its annotations. */
export function mayDestroy({ annotations }: ToolDefinition): boolean {
  return annotations?.readOnlyHint !== true && annotations?.destructiveHint !== false
}

/**
 * Interrupts the graph before a call that needs approval. It is the innermost interceptor, so the person
 * sees the call that will be sent.
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
        return next({ args: decision.editedAction.args })
      case 'reject':
        return rejection(request, decision.message)
    }
  }
}

async function decisionOn(request: ToolCallRequest): Promise<ApprovalDecision> {
  const place = graphPlaceOf(request.config)
  if (place === undefined) {
    throw cannotAskError(
      request,
      'the tool was not called by a model in a graph with a checkpointer',
    )
  }
  if (!place.isAlone) {
    throw cannotAskError(
      request,
      'several calls run in one node of the graph, and on resume all of them would be executed again. Run each in a task of its own, as createAgent() and fanOutToolCalls() do',
    )
  }
  const graph = await loadLangGraph()
  if (graph === undefined) throw cannotAskError(request, '@langchain/langgraph is not installed')
  const question = approvalRequestFrom(request, place.toolCallId)
  const read = (answer: unknown): ReadAnswer<ApprovalDecision> =>
    decisionFrom(answer, question) ?? { problem: problemText(question) }
  const decision = await askPerson(graph, { question, place, read })
  if (decision === undefined) throw changedSince(request)
  return decision
}

function problemText({ reviewConfigs: [{ allowedDecisions }] }: ApprovalRequest): string {
  return `The answer is not a decision on this call: resume with { decisions: [{ type }] }, one decision of type ${allowedDecisions.join(', ')}; editedAction has the name of the tool and args`
}

function approvalRequestFrom(request: ToolCallRequest, toolCallId: string): ApprovalRequest {
  const { name, server, tool } = request
  const args = request.withoutSecrets(request.args)
  // A person cannot edit arguments that contain hidden values.
  const canEdit = canonicalJson(args) === canonicalJson(request.args)
  const title = tool.annotations?.title ?? tool.title ?? tool.name
  const description = `MCP tool "${title}" of server "${serverTitle(server)}" is about to be called`
  const { inputSchema: argsSchema } = tool
  const shown = canonicalJson([serverTitle(server), name, args])
  return {
    type: 'mcp_approval',
    key: `${toolCallId}:${createHash('sha256').update(shown).digest('hex').slice(0, 16)}`,
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

/** Parses `{ decisions: [decision] }`, the resume value of the human-in-the-loop middleware. */
function decisionFrom(
  value: unknown,
  { actionRequests: [{ name }], reviewConfigs: [{ allowedDecisions }] }: ApprovalRequest,
): ApprovalDecision | undefined {
  const decisions: unknown = isRecord(value) ? value['decisions'] : undefined
  if (!Array.isArray(decisions) || decisions.length !== 1) return undefined
  const [decision]: readonly unknown[] = decisions
  if (!isRecord(decision)) return undefined
  const { type, editedAction, message } = decision
  if (type === 'approve') return { type }
  if (type === 'reject') return { type, ...(typeof message === 'string' && { message }) }
  if (type !== 'edit' || !allowedDecisions.includes(type)) return undefined
  if (!isRecord(editedAction) || editedAction['name'] !== name) return undefined
  const { args } = editedAction
  return isRecord(args) ? { type, editedAction: { name, args } } : undefined
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

function cannotAskError({ server, tool }: ToolCallRequest, why: string): McpToolError {
  return new McpToolError(
    'APPROVAL_REQUIRED',
    `MCP tool "${tool.name}" of server "${serverTitle(server)}" needs the approval of a person, and no person can be asked here: ${why}. It was not executed; repeating the call will not help.`,
    { server, toolName: tool.name, category: 'user', outcome: 'not-executed' },
  )
}

/**
 * The error for arguments that changed after the approval, because the task was executed again with other
 * interceptor results or argument properties.
 */
function changedSince({ server, tool }: ToolCallRequest): McpToolError {
  const origin = { server, toolName: tool.name }
  const what = 'Its arguments are not the ones that a person has approved, so nothing more was sent'
  return new McpToolError('APPROVAL_REQUIRED', `${unknownOutcomeText(origin, what)}.`, {
    ...origin,
    category: 'user',
    outcome: 'unknown',
  })
}
