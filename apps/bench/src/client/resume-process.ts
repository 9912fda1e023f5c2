// A process that makes one call in a session that is kept in a file: `<file> <url>`.
import { McpClient, SessionInfoFactory } from '@x/mcp-client'
import { FileSessionInfo } from '@x/mcp-transport'
import type { SessionInfo } from '@x/mcp-transport'
import { answerTasks } from '../bench/tasks.ts'
import { checkResult } from './checks.ts'
import { ARGS, CLIENT_INFO, TOOL } from './protocol.ts'

const [, , file = '', url = ''] = process.argv

class FileFactory extends SessionInfoFactory {
  override createSession(): SessionInfo {
    return new FileSessionInfo(file)
  }
}

answerTasks(async () => {
  const options = { clientInfo: CLIENT_INFO, sessionInfoFactory: new FileFactory() }
  await using client = new McpClient({ url }, options)
  checkResult(await client.callTool(TOOL, ARGS))
})
