import { interrupt } from '@langchain/langgraph'
import { mayDestroy, type ToolInterceptor } from '@x/langchain-mcp'

const approved: ToolInterceptor = (request, next) => {
  if (!mayDestroy(request.tool)) return next()
  const { name, args, config } = request
  const call = config.toolCall?.id
  const answer: unknown = interrupt({ call, name, args: request.withoutSecrets(args) })
  if (answer === `approve ${call}`) return next()
  const text = `A person did not approve the call of "${name}". Do not repeat it.`
  return { content: [{ type: 'text', text }], isError: true }
}
export {}
