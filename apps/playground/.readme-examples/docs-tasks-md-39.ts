import { readFile } from 'node:fs/promises'
import { McpClient } from '@x/mcp-client'

const client = new McpClient({ url: 'https://research.example/mcp' })
const task = client.resumeTask(JSON.parse(await readFile('task.json', 'utf8')))
console.log(await task.status())
console.log((await task.result()).content)
export {}
