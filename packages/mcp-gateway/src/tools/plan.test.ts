import { beforeAll, describe, expect, test } from 'vitest'
import { whenSchemasChecked } from '../agents/schemas.ts'
import { planOptions } from '../../test/settings.ts'
import type { GivenPlan } from '../../test/settings.ts'
import type { Agent, Skill } from '../agents/agent.ts'
import type { Principal } from '../internal/principal.ts'
import { listPrompts, listTools, ToolPlanner } from './plan.ts'
import type { ToolPlan } from './plan.ts'
import { promptContentOf } from './prompts.ts'

beforeAll(whenSchemasChecked)

function agentOf(
  id: string,
  skills: readonly Partial<Skill>[] = [],
  over: Partial<Agent> = {},
): Agent {
  return {
    id,
    name: id,
    description: `What ${id} does`,
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

function planOf(agents: readonly Agent[], options: GivenPlan = {}): ToolPlan {
  return new ToolPlanner(planOptions(options)).plan(agents)
}

const names = (plan: ToolPlan): readonly string[] => plan.tools.map(({ name }) => name)

test('warns of a tool without a description, unless an override has one', () => {
  const agents = [agentOf('a', [{ id: 'x' }]), agentOf('b')]
  const odd =
    'a_x has no description, and models choose by descriptions. Set one in tools.overrides'
  expect(planOf(agents).warnings).toEqual([odd])
  const overrides = { 'a/x': { description: 'Looks it up' } }
  expect(planOf(agents, { overrides }).warnings).toEqual([])
})

test('offers no conversation where calls share nothing, and says so once for each agent', () => {
  const agents = [
    agentOf('keeps', [{ description: 'Keeps' }]),
    agentOf(
      'forgets',
      [
        { id: 'x', description: 'X' },
        { id: 'y', description: 'Y' },
      ],
      {
        keepsThreads: false,
      },
    ),
  ]
  const plan = planOf(agents, { takesConversation: true })
  const taking = plan.tools.filter(({ definition: { inputSchema } }) => {
    return Object.hasOwn(inputSchema['properties'] as object, 'conversation')
  })
  expect(taking.map(({ name }) => name)).toEqual(['keeps_do'])
  expect(plan.warnings).toEqual([
    expect.stringMatching(/"forgets" share nothing.*compile\(\{ checkpointer \}\)/),
  ])
  expect(planOf(agents).warnings).toEqual([])
})

test('warns of a cache for calls of conversations, which are not cached', () => {
  const agents = [agentOf('keeps', [{ description: 'Keeps' }])]
  const overrides = { 'keeps/do': { cacheTtlMs: 1000 } }
  expect(planOf(agents, { overrides, takesConversation: true }).warnings).toEqual([
    expect.stringMatching(/^cacheTtlMs of keeps_do has no effect on calls of a conversation/),
  ])
  expect(planOf(agents, { overrides }).warnings).toEqual([])
})

describe('a plan', () => {
  const plan = planOf([agentOf('weather', [{ id: 'set' }, { id: 'get' }]), agentOf('news')])

  test('has a tool for each skill, and one for an agent without skills, sorted by name', () => {
    expect(names(plan)).toEqual(['news', 'weather_get', 'weather_set'])
    expect(plan.byName('weather_get')).toMatchObject({
      agent: { id: 'weather' },
      skill: { id: 'get' },
      scopes: ['agent:weather:call'],
      definition: {
        title: 'weather: get',
        _meta: { agent: 'weather', skill: 'get', status: 'healthy' },
      },
    })
    expect(plan.byName('news')?.definition.title).toBe('news')
  })

  test('has the same version for the same lists, also with other health', () => {
    const sick = agentOf('news', [], { health: 'degraded' })
    const again = planOf([sick, agentOf('weather', [{ id: 'get' }, { id: 'set' }])])
    expect(again.toolsVersion).toBe(plan.toolsVersion)
    expect(again.byName('news')?.definition).toMatchObject({ _meta: { status: 'degraded' } })
    expect(planOf([agentOf('news')]).toolsVersion).not.toBe(plan.toolsVersion)
  })

  test('encodes characters that a scope cannot contain', () => {
    const tool = planOf([agentOf('https://a b"ü\\')]).tools[0]
    expect(tool?.scopes).toEqual(['agent:https://a%20b%22%C3%BC%5C:call'])
  })
})

describe('filters', () => {
  test('leave a name to the skill that is not filtered', () => {
    const agents = [
      agentOf('a', [{ id: 'x' }], { name: 'w' }),
      agentOf('b', [{ id: 'x', name: 'X' }], { name: 'w' }),
    ]
    const plan = planOf(agents, { exclude: ['x'] })
    expect(names(plan)).toEqual(['w_x'])
    expect(plan.byName('w_x')?.agent.id).toBe('b')
    expect(plan.dropped).toEqual([
      {
        agentId: 'a',
        skillId: 'x',
        why: 'filtered',
        reason: '"w_x" is left out by include and exclude',
      },
    ])
  })

  test.each([{ exclude: ['twin'] }, { exclude: ['tw*n'] }])(
    'leave a tool out also if another agent wants its name: %j',
    (filter) => {
      const twins = ['a', 'b'].map((id) => agentOf(id, [], { name: 'Twin ' }))
      const plan = planOf(twins, filter)
      expect(names(plan)).toEqual([])
      expect(plan.dropped).toHaveLength(2)
    },
  )
})

describe('overrides', () => {
  test('set the name, texts and hints of a tool, by id or name', () => {
    const plan = planOf(
      [agentOf('1', [{ id: 'get', annotations: { readOnlyHint: true } }], { name: 'weather' })],
      {
        overrides: {
          'weather/get': {
            name: 'Forecast',
            title: 'T',
            description: 'D',
            timeoutMs: 5,
            scopes: ['s'],
            cacheTtlMs: 1,
            annotations: { idempotentHint: true },
          },
          news: { title: 'News' },
        },
      },
    )
    expect(plan.tools).toMatchObject([
      { name: 'Forecast', timeoutMs: 5, scopes: ['s'], cacheTtlMs: 1 },
    ])
    expect(plan.tools[0]?.definition).toMatchObject({
      title: 'T',
      description: 'D',
      annotations: { readOnlyHint: true, idempotentHint: true },
    })
    expect(plan.warnings).toContain('tools.overrides["news"] matches no skill now')
  })

  test.each([
    ['equal names', { a: { name: 'n' }, b: { name: 'n' } }, 'tools.overrides["b"].name'],
    ['a name that is none', { a: { name: 'a b' } }, 'tools.overrides["a"].name'],
    ['a long name', { a: { name: 'x'.repeat(65) } }, 'tools.overrides["a"].name'],
  ])('with %s are an error with their path', (_what, overrides, path) => {
    expect(() => new ToolPlanner(planOptions({ overrides }))).toThrow(
      expect.objectContaining({ code: 'CONFIG', path }),
    )
  })
})

describe('a bad schema', () => {
  test('drops only its own tool', () => {
    const skills = [{ id: 'bad', inputSchema: { type: 'array' } }, { id: 'good' }]
    const plan = planOf([agentOf('a', skills)], { parameters: 'schema' })
    expect(names(plan)).toEqual(['a_good'])
    expect(plan.dropped).toMatchObject([{ skillId: 'bad', why: 'schema' }])
    expect(plan.dropped[0]?.reason).toContain('it is of type "array"')
  })

  test('of output is not used', () => {
    const plan = planOf([agentOf('a', [{ id: 'x', outputSchema: { type: 'array' } }])])
    expect(plan.tools[0]?.outputSchema).toBeUndefined()
    expect(plan.warnings).toContainEqual(
      expect.stringContaining('The output schema of a_x is not used'),
    )
  })
})

test('names the user interface of a skill, else that of its agent', () => {
  const ui = { resourceUri: 'ui://a', page: 'A' }
  const own = { resourceUri: 'ui://b', page: 'B', visibility: ['app'] as const }
  const agents = [agentOf('a', [{ id: 'x' }, { id: 'y', ui: own }], { ui })]
  const plan = planOf(agents)
  expect(plan.tools.map(({ definition }) => definition)).toMatchObject([
    { _meta: { ui: { resourceUri: 'ui://a' } } },
    { _meta: { ui: { resourceUri: 'ui://b', visibility: ['app'] } } },
  ])
  const without = planOf([agentOf('a', [{ id: 'x' }, { id: 'y', ui: own }])])
  expect(without.toolsVersion).not.toBe(plan.toolsVersion)
})

test('drops hints that are not booleans', () => {
  const annotations = { readOnlyHint: 'yes' as unknown as boolean, openWorldHint: false }
  const tool = planOf([agentOf('a', [{ annotations }])]).tools[0]
  expect(tool?.definition.annotations).toEqual({ openWorldHint: false })
})

test('checks a result with the output schema', () => {
  const outputSchema = { properties: { celsius: { type: 'number' } }, required: ['celsius'] }
  const tool = planOf([agentOf('a', [{ outputSchema }])]).tools[0]
  expect(tool?.definition.outputSchema).toMatchObject({ type: 'object', required: ['celsius'] })
  expect(tool?.checkOutput({ celsius: 1 })).toBeUndefined()
  expect(tool?.checkOutput({ celsius: 'warm' })).toBe('/celsius must be number')
})

test('shows no formats of an output, which clients check and the gateway does not', () => {
  const properties = { format: { type: 'string', format: 'uri' } }
  const tool = planOf([agentOf('a', [{ outputSchema: { properties } }])]).tools[0]
  expect(tool?.definition.outputSchema).toEqual({
    type: 'object',
    properties: { format: { type: 'string' } },
  })
})

test('makes prompts of the examples of skills', () => {
  const agents = [agentOf('weather', [{ id: 'get', examples: ['In Paris?', ' ', 'Tomorrow?'] }])]
  const plan = planOf(agents)
  expect(plan.prompts.map(({ name, text }) => [name, text])).toEqual([
    ['weather_get_example_1', 'In Paris?'],
    ['weather_get_example_2', 'Tomorrow?'],
  ])
  expect(plan.promptByName('weather_get_example_2')?.text).toBe('Tomorrow?')
})

describe('a schema from examples', () => {
  const examples = ['{"city":"Oslo","days":2}', ' {"city":"Rome","days":1.5,"unit":"C"} ']
  const toolOf = (given: readonly string[], options: GivenPlan = { parameters: 'examples' }) =>
    planOf([agentOf('weather', [{ id: 'get', examples: given }])], options).byName('weather_get')

  test('has the properties of all examples, and requires those that each of them has', () => {
    const tool = toolOf(examples)
    expect(tool?.definition).toMatchObject({
      inputSchema: {
        type: 'object',
        properties: {
          city: { type: 'string' },
          days: { type: 'number' },
          unit: { type: 'string' },
        },
        required: ['city', 'days'],
      },
      _meta: { schemaFrom: 'examples' },
    })
    const input = { city: 'Bern', days: 3 }
    expect(tool?.check(input)).toEqual({
      ok: true,
      arguments: { files: [], input: { kind: 'arguments', value: input } },
      meant: input,
      leftOut: [],
    })
    expect(tool?.check({ city: 'Bern' }).ok).toBe(false)
    expect(tool?.check({ city: 7, days: 3 }).ok).toBe(false)
  })

  test('is not made without the setting, or for a tool that takes a message', () => {
    for (const options of [{}, { parameters: 'message' }, { parameters: 'schema' }] as const) {
      const tool = toolOf(examples, options)
      expect(tool?.definition.inputSchema).toMatchObject({ required: ['message'] })
      expect(tool?.definition).not.toHaveProperty('_meta.schemaFrom')
    }
  })

  test.each([
    ['a text among the examples', ['{"city":"Oslo"}', 'In Rome?']],
    ['a list', ['["Oslo"]']],
    ['two types of one property', ['{"city":"Oslo"}', '{"city":7}']],
    ['no property in common', ['{"city":"Oslo"}', '{"zip":7}']],
    ['an empty object', ['{}']],
    ['no example', []],
  ])('is not made for %s', (_what, given) => {
    expect(toolOf(given)?.definition.inputSchema).toMatchObject({ required: ['message'] })
  })

  test('is compiled once: a later plan has the same schema', () => {
    const agents = [agentOf('weather', [{ id: 'get', examples }])]
    const planner = new ToolPlanner(planOptions({ parameters: 'examples' }))
    const [first, second] = [planner.plan(agents), planner.plan(agents)]
    expect(second.tools[0]?.skill).toBe(first.tools[0]?.skill)
    expect(second.toolsVersion).toBe(first.toolsVersion)
  })
})

describe('the lists of a caller', () => {
  function exampleAgent(id: string): Agent {
    const skill = { id: 'do', name: 'do', description: '', examples: [`Do it, ${id}`] }
    return { id, name: id, description: '', health: 'healthy', skills: [skill] }
  }

  function principalWith(...scopes: readonly string[]): Principal {
    return { id: 'p', scopes, isAnonymous: false, claims: {} }
  }

  const plan = new ToolPlanner(planOptions()).plan([exampleAgent('a'), exampleAgent('b')])
  const onlyB = principalWith('agent:b:call')

  test('contain the tools that its scopes allow', () => {
    expect(listTools(plan, onlyB).map(({ name }) => name)).toEqual(['b_do'])
    expect(listTools(plan, principalWith('*'))).toHaveLength(2)
    expect(listTools(plan, principalWith())).toEqual([])
  })

  test('contain the prompts that its scopes allow', () => {
    expect(listPrompts(plan, onlyB)).toEqual([
      { name: 'b_do_example_1', title: 'Do it, b', description: 'Example for b: do' },
    ])
    expect(promptContentOf(plan.prompts[0]!)).toEqual({
      description: 'Example for a: do',
      messages: [{ role: 'user', content: { type: 'text', text: 'Do it, a' } }],
    })
  })
})
