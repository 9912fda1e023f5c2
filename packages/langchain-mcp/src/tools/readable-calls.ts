import { AIMessage } from '@langchain/core/messages'
import { definedFields } from '@x/internal'
import { argumentsIn } from './fitted-arguments.ts'

/** Reasons for the end of a message within a call, as providers write them at several places. */
const CUT = /:"(?:\w*length|max_\w*tokens|incomplete|content_filter|refusal|\w*exceeded)"/i

/**
 * Turns calls whose arguments LangChain could not read into calls: those with empty arguments, and those with JSON in a
 * fence, with a comma too much, or inside of a text. The run of an agent ends without a word if a model writes only such
 * calls (langchainjs#11311). A message that was cut stays as it is: its arguments may be empty because they are missing.
 *
 * @param names the tools whose calls are read. Each checks its arguments
 */
export function readCalls(message: unknown, names: ReadonlySet<string>): void {
  if (!AIMessage.isInstance(message) || !message.invalid_tool_calls?.length) return
  if (CUT.test(JSON.stringify(message.response_metadata))) return
  const unread: typeof message.invalid_tool_calls = []
  const read: NonNullable<typeof message.tool_calls> = []
  for (const call of message.invalid_tool_calls) {
    const { id, name = '', args = '' } = call
    const value = names.has(name) ? argumentsIn(args) : undefined
    if (value === undefined) unread.push(call)
    else read.push({ type: 'tool_call', ...definedFields({ id }), name, args: value })
  }
  if (read.length === 0) return
  message.tool_calls = [...(message.tool_calls ?? []), ...read]
  message.invalid_tool_calls = unread
}
