import { createMcpTools } from '@x/langchain-mcp'
import type { ClientKind } from '../client-kind.ts'
import { callsOf } from '../../tools.ts'

/** `createMcpTools`, as an agent of LangChain uses the tools. */
export const ourTools: ClientKind = {
  name: 'createMcpTools',
  era: 'modern',
  can: ['answers', 'changes', 'heals'],
  connect: async (target, { answer, onToolsChanged } = {}) => {
    const config = 'command' in target ? { command: target.command, args: target.args } : target
    const tools = createMcpTools({
      servers: { gateway: config },
      onServerError: 'throw',
      handlers: {
        elicitation:
          answer && (({ message }) => ({ action: 'accept', content: { answer: answer(message) } })),
      },
    })
    if (onToolsChanged) tools.on('toolsChanged', onToolsChanged)
    return {
      listTools: async () => callsOf(await tools.listTools()).names,
      call: async (name, message, { signal } = {}) =>
        callsOf(await tools.listTools()).call(name, { message }, signal),
      [Symbol.asyncDispose]: () => tools.close(),
    }
  },
}
