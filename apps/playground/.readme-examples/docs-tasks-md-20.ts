import { writeFile } from 'node:fs/promises'
import { McpClient } from '@x/mcp-client'

const client = new McpClient({ url: 'https://research.example/mcp' })
const started = await client.startTool('write_report', { topic: 'tides' })
if (started.task === undefined) {
  console.log(started.result.content)
} else {
  const { task } = started
  const store = () => writeFile('task.json', JSON.stringify(task.reference))
  await store() // before the first poll
  task.on('change', store) // answered questions become part of the reference
  console.log((await task.result()).content)
}
export {}
