import type { CallToolResult } from '@modelcontextprotocol/server'

import { legible } from '@x/internal'
import { z } from 'zod'
import { GatewayError } from '../errors.ts'
import { toolError } from '../runs/result.ts'
import { MAX_CONVERSATION_CHARS } from '../tools/conversation-tool.ts'
import type { HandlerParts } from './handlers.ts'
import type { Params } from './json-rpc.ts'
import type { RequestContext } from './request-context.ts'

const ConversationArguments = z.object({
  delete: z.string().min(1).max(MAX_CONVERSATION_CHARS).nullish(),
  agent: z.string().min(1).nullish(),
})

const WRONG = 'Bad arguments: "delete" must be the name of a conversation, and "agent" a text.'
const AWAY = 'The conversations cannot be reached now. Call again in a moment.'

/** Answers a call of `agent_conversations`. */
export async function callConversationTool(
  args: Params,
  { caller }: RequestContext,
  { conversations, onError }: HandlerParts,
): Promise<CallToolResult> {
  const given = ConversationArguments.safeParse(args)
  if (!given.success) return toolError('invalid_arguments', WRONG)
  const owner = { principal: caller.principal, scope: caller.scope }
  const { agent, delete: name } = given.data
  try {
    const found = ((await conversations?.list(owner)) ?? []).filter((each) => {
      return (agent ?? each.agent) === each.agent && (name ?? each.name) === each.name
    })
    if (name == null) {
      const listed = found.map(({ agent: id, expiresAt, name: own }) => {
        return { agent: id, name: own, expiresAt: new Date(expiresAt).toISOString() }
      })
      const lines = listed.map((each) => legible(JSON.stringify(each)))
      const text = lines.length === 0 ? 'There are no named conversations.' : lines.join('\n')
      return { content: [{ type: 'text', text }], structuredContent: { conversations: listed } }
    }
    const used: string[] = []
    for (const each of found) {
      const isDeleted = await conversations?.delete(each)
      if (isDeleted !== true) used.push(each.agent)
    }
    const deleted = found.length - used.length
    const text = `Deleted conversations: ${deleted}.`
    if (used.length > 0) return toolError('busy', `${text} ${inUse(used)}`)
    return { content: [{ type: 'text', text }], structuredContent: { deleted } }
  } catch (error) {
    if (!GatewayError.is(error)) throw error
    onError(new Error('Conversations could not be reached', { cause: error }))
    return toolError('unavailable', AWAY)
  }
}

function inUse(agents: readonly string[]): string {
  const names = agents.map((agent) => legible(JSON.stringify(agent))).join(', ')
  return `Not those with ${names}: another call of them is running. Call again in a moment.`
}
