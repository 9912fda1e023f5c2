import type { ToolDefinition } from './plan.ts'

/** Most characters of the name of a conversation. */
export const MAX_CONVERSATION_CHARS = 256

/** Tool of the gateway that lists and deletes the named conversations of a caller. */
export const CONVERSATIONS_TOOL: ToolDefinition = {
  name: 'agent_conversations',
  title: 'Conversations',
  description:
    'Lists the conversations that you have named in calls of agents, or deletes those of one name.',
  inputSchema: {
    type: 'object',
    properties: {
      delete: {
        type: 'string',
        maxLength: MAX_CONVERSATION_CHARS,
        description: 'Name of the conversations to delete. Without it: lists all.',
      },
      agent: {
        type: 'string',
        description: 'Only conversations with this agent, as the list names it.',
      },
    },
  },
}
