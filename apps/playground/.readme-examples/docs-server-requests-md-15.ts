import { isInputRequired, McpClient } from '@x/mcp-client'

const client = new McpClient(
  { url: 'https://hotel.example/mcp' },
  { capabilities: { elicitation: { form: {}, url: {} } } },
)
const open = await client.callTool('book', { room: 7 }, { inputRequired: 'surface' })
if (isInputRequired(open)) {
  // One response for each key of `open.inputRequests`. Here all are declined.
  const keys = Object.keys(open.inputRequests ?? {})
  const inputResponses = Object.fromEntries(keys.map((key) => [key, { action: 'decline' }]))
  await client.callTool(
    'book',
    { room: 7 },
    { resume: { inputResponses, requestState: open.requestState, task: open.task } },
  )
}
export {}
