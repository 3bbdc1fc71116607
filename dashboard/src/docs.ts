// The API's description at /docs. A browser that has signed in may try requests out; others give a token.
import SwaggerUI, { type System } from "swagger-ui-dist/swagger-ui-es-bundle.js";
import "swagger-ui-dist/swagger-ui.css";
import "./style.css";
import "./docs.css";
import "./theme.svelte";

// Swagger UI has a link within the button that opens an operation, which the keyboard and screen readers cannot tell apart, and no
// heading between the page's and those of tags, and its head is in no landmark. The address follows what is opened, so the link is
// not missed.
const accessible = ({ React }: System) => ({
  components: {
    DeepLink: ({ text }: { text: unknown }) => React.createElement("span", null, text),
  },
  wrapComponents: {
    InfoContainer: (Info: unknown) => (props: object) => React.createElement("section", { "aria-label": "about the API" }, React.createElement(Info, props)),
    operations: (Operations: unknown) => (props: object) =>
      React.createElement(React.Fragment, null, React.createElement("h2", { className: "hidden" }, "Requests"), React.createElement(Operations, props)),
  },
});

// The description's security schemes refer to nothing. To resolve them, as Swagger UI does before it shows anything, it would work through
// the whole description for a second.
const isSchemes = (path: string[]) => path.join(".") === "components.securitySchemes";
const quick = {
  statePlugins: {
    spec: {
      wrapActions: {
        requestResolvedSubtree: (original: (path: string[]) => unknown, { specActions, specSelectors }: System) => (path: string[]) =>
          isSchemes(path) ? specActions.updateResolvedSubtree(path, specSelectors.specJson().getIn(path).toJS()) : original(path),
      },
    },
  },
};

SwaggerUI({ url: "/v1/openapi.json", dom_id: "#docs", deepLinking: true, docExpansion: "list", validatorUrl: null, plugins: [accessible, quick] });
