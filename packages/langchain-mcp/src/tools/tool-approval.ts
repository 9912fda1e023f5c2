import { ToolMessage } from '@langchain/core/messages'
import { canonicalJson, isRecord } from '@x/internal'
import { createHash } from 'node:crypto'
import { McpToolError } from '../base/errors.ts'
import { serverTitle, type ToolDefinition } from '../base/tool-source.ts'
import type { ApprovalDecision, ApprovalRequest } from '../interrupts/interrupt-value.ts'
import { addressVerdict, graphPlaceOf, loadLangGraph } from '../interrupts/langgraph.ts'
import type { ToolCallRequest, ToolInterceptor } from './interceptors.ts'

/**
 * Which calls a person has to approve: a function says it of each. `'destructive'`: those of tools that may
 * destroy something. That is every tool that is neither `readOnlyHint: true` nor `destructiveHint: false`
 * (specification, "Tool Annotations"). The hints are the server's own words: where it is not trusted,
 * decide by name.
 */
export type Approve = 'destructive' | ((call: ToolCallRequest) => boolean | Promise<boolean>)

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
        return next({ args: decision.editedAction.args })
      case 'reject':
        return rejection(request, decision.message)
    }
  }
}

async function decisionOn(request: ToolCallRequest): Promise<ApprovalDecision> {
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
  const question = approvalRequestFrom(request, place.toolCallId)
  const { key } = question
  // Each verdict is kept in the checkpoint: when the task is executed again, an answer that was refused
  // must not be accepted because other calls have been answered since.
  const judge = langGraph.task(
    `mcp:${place.toolCallId}:approval`,
    (answer: unknown, isKeyNeeded: boolean) =>
      verdictOn(answer, { question, isKeyNeeded, config: request.config }),
  )
  let again: Refusal | undefined
  for (;;) {
    const answer: unknown = langGraph.interrupt({
      ...question,
      ...(again !== undefined && { problem: again.problem }),
    })
    const verdict = await judge(answer, again?.isKeyNeeded === true)
    if (verdict.kind === 'refused') {
      const isKeyNeeded = again?.isKeyNeeded === true || verdict.isKeyNeeded
      again = { ...verdict, isKeyNeeded }
    } else if (verdict.key === key) return verdict.decision
    else throw changedSince(request)
  }
}

/** An answer that decides nothing: the call is shown again. */
interface Refusal {
  readonly kind: 'refused'
  readonly problem: string
  /** Whether from now on only an answer for this very call counts. */
  readonly isKeyNeeded: boolean
}

/** Plain data, because a checkpoint keeps it. */
type Verdict =
  | Refusal
  | { readonly kind: 'decided'; readonly key: string; readonly decision: ApprovalDecision }

interface Judging {
  readonly question: ApprovalRequest
  readonly isKeyNeeded: boolean
  readonly config: ToolCallRequest['config']
}

/** Accepts a decision on this call: one with its key, or one that can be for no other call. */
async function verdictOn(
  answer: unknown,
  { question, isKeyNeeded, config }: Judging,
): Promise<Verdict> {
  const { key } = question
  const [{ allowedDecisions }] = question.reviewConfigs
  if (isRecord(answer) && answer['key'] !== undefined && answer['key'] !== key) {
    return refused('This was the answer to another question')
  }
  const decision = decisionFrom(answer, question)
  if (decision === undefined) {
    return refused(
      `The answer is no decision on this call: resume with { decisions: [{ type }] }, one decision of type ${allowedDecisions.join(', ')}; editedAction has the name of the tool and args`,
    )
  }
  if (isRecord(answer) && answer['key'] === key) return { kind: 'decided', key, decision }
  const address = await addressVerdict(answer, { key, isKeyNeeded, config })
  return address.kind === 'accepted'
    ? { kind: 'decided', key, decision }
    : refused(address.problem, true)
}

function refused(problem: string, isKeyNeeded = false): Refusal {
  return { kind: 'refused', problem, isKeyNeeded }
}

function approvalRequestFrom(request: ToolCallRequest, toolCallId: string): ApprovalRequest {
  const { name, server, tool } = request
  const args = request.withoutSecrets(request.args)
  // What is not shown cannot be sent back.
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

/** Reads `{ decisions: [decision] }`, which the human-in-the-loop middleware is resumed with. */
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

function unasked({ server, tool }: ToolCallRequest, why: string): McpToolError {
  return new McpToolError(
    'APPROVAL_REQUIRED',
    `MCP tool "${tool.name}" of server "${serverTitle(server)}" needs the approval of a person, who cannot be asked here: ${why}. It was not executed; repeating the call will not help.`,
    { server, toolName: tool.name, category: 'user', outcome: 'not-executed' },
  )
}

/** The task was executed again after the approval, and interceptors or configured values give other arguments now. */
function changedSince({ server, tool }: ToolCallRequest): McpToolError {
  return new McpToolError(
    'APPROVAL_REQUIRED',
    `MCP tool "${tool.name}" of server "${serverTitle(server)}" failed. Its arguments are not the ones that a person has approved, so nothing more was sent. Check what happened before you repeat the call.`,
    { server, toolName: tool.name, category: 'user', outcome: 'unknown' },
  )
}
