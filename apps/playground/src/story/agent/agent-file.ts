import { agentDefinitionFrom } from '@x/langchain-mcp'
import type { AgentDefinition } from '@x/langchain-mcp'
import { readJsonFile } from '../../json-file.ts'

/** @throws an error whose message names the file, the field and what is expected there. */
export async function readAgentDefinition(path: string): Promise<AgentDefinition> {
  return agentDefinitionFrom(await readJsonFile(path), { source: path })
}
