// Everything exported here is public API. How agents become tools, and calls runs, is deliberately private.
export { skillsOf } from './agents/agent.ts'
export type { Agent, AgentHealth, JsonSchema, Skill, SkillAnnotations } from './agents/agent.ts'
export type { AgentListener, AgentSource } from './agents/agent-source.ts'

export { langGraphSource } from './sources/langgraph/lang-graph-source.ts'
export type { LangGraphSourceOptions } from './sources/langgraph/lang-graph-source.ts'
export type {
  GraphDefinition,
  GraphOutput,
  GraphState,
  RunnableGraph,
} from './sources/langgraph/graph-definition.ts'

export type {
  AgentCall,
  AgentInput,
  Answer,
  ArtifactWriter,
  InputFile,
  OutputFile,
  Resume,
} from './runs/agent-call.ts'
export { isFinal } from './runs/agent-update.ts'
export type { AgentUpdate, FinalUpdate, Question } from './runs/agent-update.ts'

export { isAllowed } from './auth/principal.ts'
export type { Principal } from './auth/principal.ts'
export type { AuthenticationRequest, Authenticator } from './auth/authenticator.ts'

export { DiskGatewayStore } from './store/disk-gateway-store.ts'
export type { DiskGatewayStoreOptions } from './store/disk-gateway-store.ts'
export { MemoryGatewayStore } from './store/memory-gateway-store.ts'
export type { MemoryGatewayStoreOptions } from './store/memory-gateway-store.ts'
export type {
  Blobs,
  ByteRange,
  GatewayStore,
  ListedValue,
  ListOptions,
  LoggedEvent,
  LogLimits,
  Logs,
  Messages,
  PutOptions,
  Rate,
  Rates,
  Values,
  Versioned,
  WrittenBlob,
} from './store/gateway-store.ts'

export { GatewayError } from './gateway-error.ts'
export type { GatewayErrorCode, GatewayErrorOptions } from './gateway-error.ts'
