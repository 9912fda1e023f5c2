import { expect, test } from 'vitest'
import * as surface from './index.ts'
import * as middleware from './middleware.ts'
import * as prompts from './prompts.ts'
import * as resources from './resources.ts'
import * as skills from './skills.ts'

test('exports exactly this', () => {
  expect(Object.keys(surface).toSorted()).toEqual([
    'AgentDefinitionError',
    'FileSessionInfoFactory',
    'McpTool',
    'McpToolError',
    'SessionInfoFactory',
    'SessionInfoLangGraphStoreFactory',
    'ToolSearch',
    'agentDefinitionFrom',
    'authorizationResume',
    'authorizationToInterrupt',
    'createMcpTools',
    'createMcpToolsFromAgent',
    'createMcpToolsFromMetadataForMcpServer',
    'currentRun',
    'elicitationResume',
    'elicitationToInterrupt',
    'isAuthorizationInterrupt',
    'isElicitationInterrupt',
    'isMcpResource',
    'isTaskInterrupt',
    'loadMcpTools',
    'mayDestroy',
    'pinnedToolsFrom',
    'runIdOf',
    'runInSessionScope',
    'userTokens',
  ])
})

test('exports exactly this from its other paths', () => {
  expect(Object.keys(middleware).toSorted()).toEqual(['interruptOnFrom', 'mcpToolsMiddleware'])
  expect(Object.keys(prompts)).toEqual(['loadMcpPrompt'])
  expect(Object.keys(resources).toSorted()).toEqual(['McpBlob', 'loadMcpResources'])
  expect(Object.keys(skills).toSorted()).toEqual(['mcpSkillsBackend', 'mcpSkillsMiddleware'])
})

test('recognises errors of another copy of the package', () => {
  const copy = { [Symbol.for('langchain-mcp.McpToolError')]: true }
  expect(surface.McpToolError.is(copy)).toBe(true)
  expect(surface.McpToolError.is(new Error('other'))).toBe(false)
})
