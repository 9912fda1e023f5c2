import { ToolMessage } from '@langchain/core/messages'
import { isRecord } from './is-record.ts'
import { McpToolError } from './mcp-tool-error.ts'
import type { ToolCallRequest, ToolInterceptor } from './tool-interceptor.ts'
import { serverTitle } from './tool-origin.ts'
import type { ToolDefinition } from './tool-source.ts'

/**
 * Which calls a person has to approve. `'destructive'`: those of tools that may destroy something. That is
 * every tool that is neither `readOnlyHint: true` nor `destructiveHint: false` (specification, "Tool
 * Annotations"). The hints are the server's own words: where it is not trusted, decide by name.
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
      readonly allowedDecisions: readonly ['approve', 'edit', 'reject']
      readonly argsSchema?: Readonly<Record<string, unknown>>
    },
  ]
}

type Decision =
  | { readonly type: 'approve' }
  | { readonly type: 'edit'; readonly args: Readonly<Record<string, unknown>> }
  | { readonly type: 'reject'; readonly message: string | undefined }

/** LangGraph's `interrupt()`. Throws where the graph has to stop; returns what it was resumed with. */
export type Interrupt = (value: unknown) => unknown

/** Whether a tool may destroy something, as far as its annotations say. */
export function mayDestroy({ annotations }: ToolDefinition): boolean {
  return annotations?.readOnlyHint !== true && annotations?.destructiveHint !== false
}

/**
 * Interrupts the graph before a call that a person has to approve. Stands next to the server: what is shown
 * is what will be sent.
 */
export function approvalInterceptor(
  approve: Approve,
  loadInterrupt: () => Promise<Interrupt> = langGraphInterrupt,
): ToolInterceptor {
  return async function approved(request, next) {
    const isNeeded = approve === 'destructive' ? mayDestroy(request.tool) : await approve(request)
    if (!isNeeded) return next()
    const decision = await decisionOn(request, loadInterrupt)
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

async function decisionOn(
  request: ToolCallRequest,
  loadInterrupt: () => Promise<Interrupt>,
): Promise<Decision> {
  if (sharesItsTask(request)) {
    throw unasked(
      request,
      'several calls run in one node of the graph, and their answers could be mixed up. Run each in a task of its own, as createAgent() does',
    )
  }
  const question = approvalRequestFrom(request)
  let interrupt: Interrupt
  try {
    interrupt = await loadInterrupt()
  } catch (error) {
    throw unasked(request, '@langchain/langgraph is not installed', error)
  }
  // What is no decision asks again: a stale or broken form must neither run the tool nor end the graph.
  for (;;) {
    const decision = decisionFrom(ask(request, interrupt, question))
    if (decision !== undefined) return decision
  }
}

function ask(request: ToolCallRequest, interrupt: Interrupt, question: ApprovalRequest): unknown {
  try {
    return interrupt(question)
  } catch (error) {
    if (isGraphSignal(error)) throw error
    throw unasked(request, 'the tool does not run in a graph with a checkpointer', error)
  }
}

/** LangGraph stops a graph by throwing; such errors are its own. */
function isGraphSignal(error: unknown): boolean {
  return (
    error instanceof Error && (error.name === 'GraphInterrupt' || error.name === 'NodeInterrupt')
  )
}

function approvalRequestFrom({ name, server, tool, args }: ToolCallRequest): ApprovalRequest {
  const title = tool.annotations?.title ?? tool.title ?? tool.name
  const description = `MCP tool "${title}" of server "${serverTitle(server)}" is about to be called`
  const { inputSchema: argsSchema } = tool
  return {
    actionRequests: [{ name, args, description }],
    reviewConfigs: [
      {
        actionName: name,
        allowedDecisions: ['approve', 'edit', 'reject'],
        ...(argsSchema !== undefined && { argsSchema }),
      },
    ],
  }
}

/** `{ decisions: [decision] }`, as the human-in-the-loop middleware is resumed with. */
function decisionFrom(value: unknown): Decision | undefined {
  const decisions: unknown = isRecord(value) ? value['decisions'] : undefined
  const [decision]: readonly unknown[] = Array.isArray(decisions) ? decisions : []
  if (!isRecord(decision)) return undefined
  const { type, editedAction, message } = decision
  if (type === 'approve') return { type }
  if (type === 'reject') return { type, message: typeof message === 'string' ? message : undefined }
  const args: unknown = isRecord(editedAction) ? editedAction['args'] : undefined
  return type === 'edit' && isRecord(args) ? { type, args } : undefined
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

function unasked({ server, tool }: ToolCallRequest, why: string, cause?: unknown): McpToolError {
  return new McpToolError(
    'APPROVAL_REQUIRED',
    `MCP tool "${tool.name}" of server "${serverTitle(server)}" needs the approval of a person, who cannot be asked here: ${why}. It was not executed; repeating the call will not help.`,
    {
      server,
      toolName: tool.name,
      category: 'user',
      outcome: 'not-executed',
      ...(cause !== undefined && { cause }),
    },
  )
}

/** In a plain `ToolNode`, all calls of one message run in one task, and an interrupt of one runs the others again. */
function sharesItsTask({ config }: ToolCallRequest): boolean {
  const triggers: unknown = config.metadata?.['langgraph_triggers']
  if (Array.isArray(triggers) && triggers[0] === '__pregel_push') return false
  const scratchpad: unknown = config.configurable?.['__pregel_scratchpad']
  const input: unknown = isRecord(scratchpad) ? scratchpad['currentTaskInput'] : undefined
  const messages: unknown = isRecord(input) ? input['messages'] : input
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined
  const calls: unknown = isRecord(last) ? last['tool_calls'] : undefined
  return Array.isArray(calls) && calls.length > 1
}

/** Only who asks for approvals needs LangGraph. */
async function langGraphInterrupt(): Promise<Interrupt> {
  const { interrupt } = await import('@langchain/langgraph')
  return (value) => interrupt(value)
}
