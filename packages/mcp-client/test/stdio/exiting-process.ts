// A process with one client of a server that only a signal ends. It tells the pid of the server, and exits
// without having disposed of anything.
import { McpClient } from '../../src/index.ts'
import { misbehaving } from './misbehaving.ts'

const client = new McpClient(misbehaving('linger'))
const { content } = await client.callTool('pid')
process.stdout.write(JSON.stringify(content), () => process.exit())
