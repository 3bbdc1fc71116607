// Who works with the page. What the role of that member cannot do is not offered; the server refuses it anyway.
import type { Team } from "./api";

export const who = $state<{ team: string; teamId: string; member: string; role: Team["role"]; scopes: Team["scopes"] }>({
  team: "",
  teamId: "",
  member: "",
  role: "viewer",
  scopes: [],
});

export function became(team: Team) {
  Object.assign(who, { team: team.name, teamId: team.id, member: team.member, role: team.role, scopes: team.scopes });
}

export const may = (scope: Team["scopes"][number]) => who.scopes.includes(scope);
