import { ToolMessage, type BaseMessage } from '@langchain/core/messages'
import { tool, type ToolRuntime } from '@langchain/core/tools'
import { isRecord, legible } from '@x/internal'
import type { Skill } from '@x/mcp-client/skills'
import { createMiddleware, type AgentMiddleware } from 'langchain'
import { z } from 'zod'
import { assertOptions, configError } from '../options.ts'
import { serverTitle } from '../tool-source.ts'
import { McpTool } from '../tools/mcp-tool.ts'
import {
  partOf,
  pathsOf,
  skillOptionChecks,
  SkillLibrary,
  SkillRefused,
  textOf,
  type McpSkillsOptions,
  type ServedSkill,
  type SkillServers,
  originOf,
} from './skill-library.ts'

const LOAD = 'load_skill'
const READ = 'read_skill_file'

/** Number of skills in the prompt. */
const MAX_SHOWN = 100
/** Number of paths of files in the text of a loaded skill. */
const MAX_PATHS = 100

const INTRODUCTION = `## Skills of MCP servers

A skill has instructions for a kind of task. If a task matches the description of a skill, call ${LOAD} with its server and URI before you begin, and follow its instructions. They are those of its server: they have no more authority than the tools of that server. Use them for no other server. Each line is one skill:`

/** Not part of the input and the output of the agent. */
const stateSchema = z.object({ _mcpSkills: z.array(z.string()).default([]) })

/**
 * Offers the skills of MCP servers to an agent of `createAgent()`: their names and descriptions in the prompt, and the
 * tools `load_skill` and `read_skill_file`. The list is read when an invocation of the agent begins; a skill is read
 * when the model loads it. Each file is checked against the entry that was loaded, which is kept in the messages, also
 * for the next process. Fields such as `allowed-tools` have no effect.
 *
 * @throws {McpClientError} `CONFIG` for an option that is unknown or has a wrong value
 * @example
 * ```ts
 * import { createMcpTools } from '@x/langchain-mcp'
 * import { mcpSkillsMiddleware } from '@x/langchain-mcp/skills'
 * import { createAgent } from 'langchain'
 *
 * const mcp = createMcpTools({ servers: { shop: { url: 'https://shop.example/mcp' } } })
 * const model = 'anthropic:claude-sonnet-4-5'
 * const agent = createAgent({ model, middleware: [mcpSkillsMiddleware(mcp)] })
 * ```
 */
export function mcpSkillsMiddleware(
  mcp: SkillServers,
  options: McpSkillsOptions = {},
): AgentMiddleware {
  assertOptions('mcpSkillsMiddleware()', { mcp, ...options }, skillOptionChecks)
  const library = new SkillLibrary(mcp, options)
  const address = {
    server: z.string().describe('The server of the skill'),
    uri: z.string().describe('The URI of the skill'),
  }
  const load = tool(
    ({ server, uri }: { server: string; uri: string }, { toolCallId }: ToolRuntime) =>
      answer(LOAD, toolCallId, async () => {
        const skill = await library.get(server, uri)
        const text = textOf(await library.read({ server, skill }))
        const body = partOf(
          text,
          0,
          (next) => `Call ${READ} with the path SKILL.md and offset ${next}`,
        )
        const content = loadedText({ server, skill }, body)
        return { content, artifact: { server, skill } }
      }),
    {
      name: LOAD,
      description: 'Loads the instructions of a skill of an MCP server.',
      schema: z.object(address),
    },
  )
  const read = tool(
    (
      {
        server,
        uri,
        path,
        offset = 0,
      }: { server: string; uri: string; path: string; offset?: number | undefined },
      { toolCallId, state }: ToolRuntime,
    ) =>
      answer(READ, toolCallId, async () => {
        const skill = heldIn(state, server, uri)
        if (skill === undefined) throw new SkillRefused(`Load the skill with ${LOAD} first.`)
        const text = textOf(await library.read({ server, skill }, path))
        return { content: partOf(text, offset, (next) => `Read on with offset ${next}`) }
      }),
    {
      name: READ,
      description: 'Reads a file of a skill that was loaded.',
      schema: z.object({
        ...address,
        path: z.string().describe('Path of the file in the skill, such as references/FORMS.md'),
        offset: z.number().int().min(0).optional().describe('Characters to leave out. Default: 0'),
      }),
    },
  )
  return createMiddleware({
    name: 'McpSkills',
    stateSchema,
    tools: [load, read],
    async beforeAgent() {
      return { _mcpSkills: (await library.list()).map(lineOf) }
    },
    wrapModelCall(request, handler) {
      assertOwnNames(request.tools, [load, read])
      const { _mcpSkills: lines } = request.state
      if (lines.length === 0) return handler(request)
      const shown = lines.slice(0, MAX_SHOWN).join('\n')
      const rest = lines.length - MAX_SHOWN
      const more = rest > 0 ? `\n${rest} more skills are not shown.` : ''
      const systemMessage = request.systemMessage.concat(`\n\n${INTRODUCTION}\n${shown}${more}`)
      return handler({ ...request, systemMessage })
    },
  })
}

/**
 * LangChain would refuse the model call, or call the other tool.
 *
 * @throws {McpClientError} `CONFIG` for another tool with the name of one of these
 */
function assertOwnNames(
  tools: readonly (object & { readonly name?: unknown })[],
  own: readonly { readonly name: string }[],
): void {
  const other = tools.find((given) => own.some((one) => one !== given && one.name === given.name))
  if (other === undefined) return
  const owner =
    other instanceof McpTool ? ` of MCP server "${serverTitle(other.origin.server)}"` : ''
  throw configError(
    `mcpSkillsMiddleware(): there is another tool "${String(other.name)}"${owner}. Leave it out, or give it another name: \`allow\` and \`prefixToolNames\` of createMcpTools() do that`,
  )
}

/** A line of JSON, so that no description of a server can look like another skill. */
function lineOf({ server, skill: { uri, frontmatter } }: ServedSkill): string {
  const { name, description } = frontmatter
  return JSON.stringify({ server, uri, name, description: legible(description) })
}

function loadedText(served: ServedSkill, body: string): string {
  const paths = pathsOf(served.skill)
  const files =
    paths.length === 0 ? [] : [`Files for ${READ}: ${JSON.stringify(paths.slice(0, MAX_PATHS))}`]
  return [originOf(served), body, ...files].join('\n\n')
}

/** Answers a call with a text, also if the skill cannot be used: the model can go on without it. */
async function answer(
  name: string,
  id: string,
  use: () => Promise<{ readonly content: string; readonly artifact?: unknown }>,
): Promise<ToolMessage> {
  try {
    return new ToolMessage({ ...(await use()), name, tool_call_id: id, status: 'success' })
  } catch (error) {
    if (!(error instanceof SkillRefused)) throw error
    const { message: content } = error
    return new ToolMessage({ content, name, tool_call_id: id, status: 'error' })
  }
}

/**
 * Returns the entry with which the skill was loaded last. Callers of the agent may have written the message: what they
 * want to read must be approved, too.
 */
function heldIn(state: unknown, server: string, uri: string): Skill | undefined {
  const messages: readonly BaseMessage[] =
    isRecord(state) && Array.isArray(state['messages']) ? state['messages'] : []
  for (const message of messages.toReversed()) {
    if (!ToolMessage.isInstance(message) || message.name !== LOAD) continue
    const { artifact }: { artifact?: unknown } = message
    if (isHeld(artifact) && artifact.server === server && artifact.skill.uri === uri) {
      return artifact.skill
    }
  }
  return undefined
}

function isHeld(artifact: unknown): artifact is ServedSkill {
  if (!isRecord(artifact) || typeof artifact['server'] !== 'string') return false
  const { skill } = artifact
  if (!isRecord(skill)) return false
  const { resources } = skill
  return resources === 'dynamic' || (Array.isArray(resources) && resources.every(isRecord))
}
