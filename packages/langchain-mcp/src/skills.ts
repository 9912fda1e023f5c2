// Everything exported here is public API. Needs `langchain` and `@modelcontextprotocol/client`, which the rest of the
// package does not.
import './runtime-check.ts' // stays the first import

export type {
  McpSkillsOptions,
  SkillApprovalRequest,
  SkillServers,
} from './skills/skill-library.ts'
export { mcpSkillsMiddleware } from './skills/skills-middleware.ts'
export { mcpSkillsBackend } from './skills/skills-backend.ts'
export type { McpSkillsBackend } from './skills/skills-backend.ts'
