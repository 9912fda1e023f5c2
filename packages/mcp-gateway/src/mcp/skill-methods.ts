import { ResourceNotFoundError } from '@modelcontextprotocol/server'
import { isRecord } from '@x/internal'
import type { Agent } from '../agents/agent.ts'
import { isAllowed, mayUse, type Principal } from '../internal/principal.ts'
import {
  hasNestedSkills,
  SCAN_MS,
  SKILL_SCHEME,
  type Skill,
  type SkillFolder,
} from '../skills/skill-folder.ts'
import { scopeOf, type ToolPlan } from '../tools/plan.ts'
import type { HandlerParts, McpResult, Method } from './handlers.ts'
import { invalidParams, type Params } from './json-rpc.ts'

/** Entries on a page. One may name 512 files. */
const PAGE_SIZE = 50

const TEMPLATE = {
  uriTemplate: `${SKILL_SCHEME}{+path}`,
  name: 'skill',
  title: 'Skill',
  description: 'A file of a skill: instructions for models',
} as const

/**
 * Methods of the Skills extension (SEP-2640), and methods of others that also answer with skills: lists and reads of
 * resources, and the list of tools, which names the skills of each agent.
 */
export function skillMethods(
  skills: SkillFolder,
  others: Readonly<Record<string, Method>>,
): Readonly<Record<string, Method>> {
  const otherMethod = (method: string): Method => others[method] ?? (() => ({}))
  return {
    'skills/list': async ({ cursor }, { principal }, parts) => {
      const list = `skills\0${principal.id}`
      const after = typeof cursor === 'string' ? parts.cursors.open(list, cursor) : ''
      if (after === undefined || (cursor !== undefined && typeof cursor !== 'string')) {
        throw invalidParams('The cursor does not belong to this list')
      }
      const isVisible = await visibility(skills, principal, parts)
      const rest = (await skills.entries()).filter(({ uri }) => uri > after && isVisible(uri))
      const page = rest.slice(0, PAGE_SIZE)
      const last = rest.length > PAGE_SIZE ? page.at(-1) : undefined
      const nextCursor = last && parts.cursors.seal(list, last.uri)
      return { skills: page, ...(nextCursor !== undefined && { nextCursor }), ...cached(parts) }
    },
    'skills/get': async (params, { principal }, parts) => {
      const uri = uriOf(params)
      const isVisible = await visibility(skills, principal, parts)
      if (!isVisible(uri)) throw invalidParams(`No skill is served at ${uri}`)
      return { ...(await skills.request('skills/get', { uri })), ...cached(parts) }
    },
    'resources/directory/read': async (params, { principal }, parts) => {
      const uri = uriOf(params)
      const isVisible = await visibility(skills, principal, parts)
      if (!isVisible(uri)) throw invalidParams(`${uri} is not a directory resource`)
      const { resources } = await skills.request('resources/directory/read', { uri })
      return { resources: resourcesIn(resources, isVisible), ...cached(parts) }
    },
    'resources/list': async (params, context, parts) => {
      const result = await otherMethod('resources/list')(params, context, parts)
      // The other resources have the pages: skills come with the first one.
      if (params['cursor'] !== undefined) return result
      const files = listIn(result, 'resources')
      try {
        const isVisible = await visibility(skills, context.principal, parts)
        const { resources } = await skills.request('resources/list', {})
        return { ...result, resources: [...resourcesIn(resources, isVisible), ...files] }
      } catch (cause) {
        // The log says once why the folder cannot be read.
        if (skills.isRead)
          parts.onError(new Error('The files of skills could not be listed', { cause }))
        return { ...result, resources: files }
      }
    },
    'resources/templates/list': async (params, context, parts) => {
      const result = await otherMethod('resources/templates/list')(params, context, parts)
      return { resourceTemplates: [TEMPLATE, ...listIn(result, 'resourceTemplates')] }
    },
    'resources/read': async (params, context, parts) => {
      const uri = uriOf(params)
      if (!uri.startsWith(SKILL_SCHEME)) {
        return otherMethod('resources/read')(params, context, parts)
      }
      const isVisible = await visibility(skills, context.principal, parts)
      if (!isVisible(uri)) throw new ResourceNotFoundError(uri)
      return skills.request('resources/read', { uri })
    },
    'tools/list': async (params, context, parts) => {
      const result = await otherMethod('tools/list')(params, context, parts)
      return withSkills(result, await skills.lastEntries())
    },
  }
}

/** For how long clients may keep a result. */
function cached({ cacheScope }: HandlerParts): Params {
  return { ttlMs: SCAN_MS, cacheScope }
}

/** Adds the URIs of the skills of an agent to the `_meta` of its tools. */
function withSkills(result: McpResult, entries: readonly Skill[]): McpResult {
  const byOwner = new Map<unknown, string[]>()
  for (const { uri } of entries) {
    const owner = ownerIn(uri)
    byOwner.set(owner, [...(byOwner.get(owner) ?? []), uri])
  }
  const tools = listIn(result, 'tools').map((tool) => {
    const meta = isRecord(tool) ? tool['_meta'] : undefined
    if (!isRecord(tool) || !isRecord(meta)) return tool
    const uris = typeof meta['agent'] === 'string' ? byOwner.get(meta['agent']) : undefined
    return uris === undefined ? tool : { ...tool, _meta: { ...meta, skills: uris } }
  })
  return { ...result, tools }
}

/** Returns whether one of the skills is in a folder with the name of an agent: then the list of tools names it. */
export function namesAgent(uris: readonly string[], { agents }: ToolPlan): boolean {
  const names = new Set<string | undefined>(agents.map(({ name }) => name))
  return uris.some((uri) => names.has(ownerIn(uri)))
}

/**
 * Returns which URIs a caller may see. Skills in a folder with the name of an agent are for callers who may use the agent. A folder
 * that no agent is known for is for everyone if it is one skill. Else it may be the folder of an agent that is away.
 */
async function visibility(
  skills: SkillFolder,
  principal: Principal,
  { registry }: HandlerParts,
): Promise<(uri: string) => boolean> {
  const entries = await skills.entries()
  const { agents, tools } = registry.plan()
  const mayCall = (agent: Agent): boolean => {
    const own = tools.filter((tool) => tool.agent === agent)
    if (own.length === 0) return isAllowed(principal, scopeOf(agent))
    return own.some((tool) => mayUse(principal, tool))
  }
  const maySee = (owner: string): boolean => {
    const owners = agents.filter(({ name }) => name === owner)
    if (owners.length > 0) return owners.some(mayCall)
    if (isAllowed(principal, scopeOf({ id: owner }))) return true
    const outermost = entries.find((skill) => skill.uri === `${SKILL_SCHEME}${owner}/SKILL.md`)
    return outermost !== undefined && !hasNestedSkills(outermost)
  }
  const known = new Map<string, boolean>()
  return (uri) => {
    const owner = ownerIn(uri)
    if (owner === undefined) return false
    const answer = known.get(owner) ?? maySee(owner)
    known.set(owner, answer)
    return answer
  }
}

/** First folder of a skill: the name of an agent, unless it is a skill itself. `undefined`: not the URI of a skill. */
function ownerIn(uri: string): string | undefined {
  const { href = '' } = URL.parse(uri) ?? {} // in the form in which the SDK looks for it
  if (!href.startsWith(SKILL_SCHEME)) return undefined
  try {
    return decodeURIComponent(href.slice(SKILL_SCHEME.length).split('/', 1)[0] ?? '')
  } catch {
    return undefined
  }
}

function listIn(result: McpResult, key: string): readonly unknown[] {
  const list: unknown = isRecord(result) ? result[key] : undefined
  return Array.isArray(list) ? list : []
}

function resourcesIn(list: unknown, isVisible: (uri: string) => boolean): readonly unknown[] {
  return Array.isArray(list)
    ? list.filter((one) => isRecord(one) && isVisible(String(one['uri'])))
    : []
}

function uriOf({ uri }: Params): string {
  if (typeof uri === 'string') return uri
  throw invalidParams('"uri" must be text')
}
