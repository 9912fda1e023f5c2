import { planOptions } from '../../test/settings.ts'
import { describe, expect, test } from 'vitest'

import type { Agent, Skill } from '../agents/agent.ts'
import type { Principal } from '../internal/principal.ts'
import { agentsPage, type AgentsPage, resolveAgentCall } from './meta-tools.ts'
import { ToolPlanner } from './plan.ts'

const all: Principal = { id: 'p', scopes: ['*'], isAnonymous: false, claims: {} }
const planner = new ToolPlanner(
  planOptions({
    metaTools: 'only',
    parameters: 'schema',
    extras: { files: true, resume: true },
  }),
)

function agentOf(
  id: string,
  skills: readonly Partial<Skill>[] = [],
  over: Partial<Agent> = {},
): Agent {
  return {
    id,
    name: id,
    description: `About ${id}`,
    health: 'healthy',
    skills: skills.map((skill) => ({
      id: 'do',
      name: skill.id ?? 'do',
      description: '',
      ...skill,
    })),
    ...over,
  }
}

const inputSchema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const plan = planner.plan([
  agentOf('weather', [{ id: 'get', inputSchema, tags: ['rain'] }, { id: 'chat' }]),
  agentOf('news', [], { health: 'degraded' }),
  agentOf('1', [], { name: 'twin' }),
  agentOf('2', [], { name: 'twin' }),
])

function pageOf(args: unknown, principal: Principal = all): AgentsPage {
  const answer = agentsPage(plan, principal, args)
  if (!answer.ok) throw new Error(answer.complaint)
  return answer.page
}

function complaintOf(answer: { ok: boolean; complaint?: string }): string {
  return answer.complaint ?? ''
}

describe('agents_list', () => {
  test('lists agents with their skills, their health and their names for agent_call', () => {
    const { agents } = pageOf({})
    expect(agents.map(({ agent, status }) => [agent, status])).toEqual([
      ['1', 'healthy'],
      ['2', 'healthy'],
      ['news', 'degraded'],
      ['weather', 'healthy'],
    ])
    expect(agents[3]?.skills).toEqual([
      { skill: 'chat', name: 'chat', description: '', tool: 'weather_chat' },
      { skill: 'get', name: 'get', description: '', tool: 'weather_get', inputSchema },
    ])
  })

  test('finds agents by any text', () => {
    expect(pageOf({ query: 'RAIN' }).agents.map(({ agent }) => agent)).toEqual(['weather'])
    expect(pageOf({ query: 'nothing' }).agents).toEqual([])
  })

  test('lists only what the caller may call', () => {
    const one = { ...all, scopes: ['agent:2:call'] }
    expect(pageOf({}, one).agents.map(({ agent }) => agent)).toEqual(['twin'])
  })

  test('returns pages', () => {
    const many = planner.plan(Array.from({ length: 45 }, (_, index) => agentOf(`a${100 + index}`)))
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const answer = agentsPage(many, all, { ...(cursor !== undefined && { cursor }) })
      if (!answer.ok) throw new Error(answer.complaint)
      expect(answer.page.agents.length).toBeLessThanOrEqual(20)
      seen.push(...answer.page.agents.map(({ agent }) => agent))
      cursor = answer.page.nextCursor
    } while (cursor !== undefined)
    expect(seen).toHaveLength(45)
    expect(new Set(seen).size).toBe(45)
  })

  test('refuses a cursor and a query that are wrong', () => {
    expect(complaintOf(agentsPage(plan, all, { query: 1 }))).toContain('/query')
    expect(complaintOf(agentsPage(plan, all, { cursor: '§' }))).toContain('/cursor')
  })
})

describe('agent_call', () => {
  test('finds the tool, and reads its arguments', () => {
    const message = resolveAgentCall(plan, all, {
      agent: 'news',
      message: 'Hi',
      files: ['artifact://a'],
    })
    expect(message).toMatchObject({
      ok: true,
      tool: { name: 'news' },
      arguments: { input: { kind: 'message', text: 'Hi' }, files: ['artifact://a'] },
    })
    const call = { agent: 'weather', skill: 'get', arguments: { city: 'Paris' } }
    expect(resolveAgentCall(plan, all, call)).toMatchObject({
      tool: { name: 'weather_get' },
      arguments: { input: { kind: 'arguments', value: { city: 'Paris' } } },
    })
    expect(resolveAgentCall(plan, all, { agent: '2', message: 'Hi' })).toMatchObject({
      tool: { agent: { id: '2' } },
    })
  })

  test.each([
    [{}, '/agent must be a text'],
    [{ agent: 'newz', message: 'Hi' }, 'there is no such agent; there is "news"'],
    [{ agent: 'twin', message: 'Hi' }, 'there is no such agent'],
    [{ agent: 'weather', message: 'Hi' }, '/skill must be one of "chat", "get"'],
    [{ agent: 'weather', skill: 'get', message: 'Hi' }, '/arguments is needed'],
    [{ agent: 'weather', skill: 'get', arguments: {} }, "/ must have required property 'city'"],
    [{ agent: 'news' }, '/message must be a text'],
  ])('refuses %j with a reason', (args, complaint) => {
    expect(complaintOf(resolveAgentCall(plan, all, args))).toContain(complaint)
  })

  test('does not find an agent that the caller may not call', () => {
    const none = { ...all, scopes: [] }
    expect(complaintOf(resolveAgentCall(plan, none, { agent: 'news', message: 'Hi' }))).toBe(
      'Bad arguments: there is no such agent',
    )
  })
})
